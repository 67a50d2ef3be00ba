"""Clients that others publish, unchanged: each in a folder or environment of its own, made once and
kept in `.clients` at the root. Where nothing can be fetched, tests that need them are skipped."""

import subprocess
import sys
import zipfile
from contextlib import suppress
from pathlib import Path
from tempfile import mkdtemp

import pytest

from tests.support.paths import ROOT

PLACE = ROOT / ".clients"
TRITONCLIENT = "tritonclient==2.51.0"
"""The last wheel that has perf_analyzer in it."""
KSERVE = "kserve==0.21.0"
MODELS = ROOT / ".venv-models"

FROM_DESCRIPTOR = """
import importlib.util, sys
from google.protobuf import descriptor_pb2

spec = importlib.util.spec_from_file_location("published", sys.argv[1])
published = importlib.util.module_from_spec(spec)
spec.loader.exec_module(published)
found = descriptor_pb2.FileDescriptorSet()
published.DESCRIPTOR.CopyToProto(found.file.add())
found.file[0].name = "published.proto"
open(sys.argv[2], "wb").write(found.SerializeToString())
"""


def _fetched(what: str, *more: str) -> Path:
    """The content of a wheel, without what it needs."""
    place = PLACE / what.replace("==", "-")
    if not place.exists():
        PLACE.mkdir(exist_ok=True)
        folder = Path(mkdtemp(dir=PLACE))
        pip = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary", ":all:"]
        _run_or_skip([*pip, *more, "-d", str(folder), what])
        (wheel,) = folder.glob("*.whl")
        with zipfile.ZipFile(wheel) as content:
            content.extractall(folder)
        wheel.unlink()
        with suppress(OSError):  # another process of these tests was faster
            folder.rename(place)
    return place


def _run_or_skip(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"it cannot be fetched: {done.stderr.strip()[-300:]}")


class PerfAnalyzer:
    """The binary, and the libraries that it was built with."""

    def __init__(self) -> None:
        platform = ("--platform", "manylinux1_x86_64", "--python-version", "311")
        folder = _fetched(TRITONCLIENT, *platform)
        (self._program,) = folder.glob("*.data/data/bin/perf_analyzer")
        if not self._program.stat().st_mode & 0o100:
            self._program.chmod(0o755)
        found = next(MODELS.glob("lib/python3*/site-packages/nvidia_pytriton.libs"), None)
        if found is None:
            pytest.skip("its libraries come with make models")
        self._libraries = folder / "libraries"
        self._libraries.mkdir(exist_ok=True)
        for name, wanted in (("libb64*", "libb64.so.0d"), ("libcudart*", "libcudart.so.12")):
            link = self._libraries / wanted
            with suppress(FileExistsError):
                link.symlink_to(next(found.glob(name)))
        self._environ = {"LD_LIBRARY_PATH": f"{self._libraries}:{found}"}
        if self.run("--version").returncode:
            pytest.skip("perf_analyzer does not run on this machine")

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [str(self._program), *arguments]
        return subprocess.run(
            command, env=self._environ, capture_output=True, text=True, timeout=300, check=False
        )


def generated_client(folder: Path) -> None:
    """In a folder, the modules published_pb2 and published_pb2_grpc: generated from what KServe
    publishes as its definition of the protocol."""
    published = _fetched(KSERVE) / "kserve" / "protocol" / "grpc" / "grpc_predict_v2_pb2.py"
    described = folder / "published.bin"
    made = [sys.executable, "-c", FROM_DESCRIPTOR, str(published), str(described)]
    subprocess.run(made, check=True)
    protoc = [sys.executable, "-m", "grpc_tools.protoc", f"--descriptor_set_in={described}"]
    out = [f"--python_out={folder}", f"--grpc_python_out={folder}", "published.proto"]
    subprocess.run([*protoc, *out], check=True)


def kserve_python() -> Path:
    """The Python of an environment with the whole of `kserve`."""
    folder = PLACE / "kserve"
    if not (folder / "whole").exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True)
        _run_or_skip([str(folder / "bin" / "python"), "-m", "pip", "install", "-q", KSERVE])
        (folder / "whole").touch()
    return folder / "bin" / "python"
