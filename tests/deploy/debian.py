"""Images to begin with, made of Debian's packages: for machines that can pull none.

Packages are fetched with the machine's own apt, in a directory of its own (so nobody has to be
root, and nothing is installed), and unpacked without running their scripts, which is enough for
Python and for Valkey. An image is made once; its name says what is in it.
"""

import hashlib
import re
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.deploy.engine import ROOT, has_image, run

KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
SYSTEM = ("base-files", "coreutils", "dash", "grep", "libc-bin")
PYTHON = (*SYSTEM, "ca-certificates", "libpython3.11", "libstdc++6", "python3", "python3-venv")
REDIS = (*SYSTEM, "valkey-server")
LOCK = ROOT / "deploy" / "requirements.lock"

BUILDER = """\
FROM {base}
COPY wheels /opt/wheels
COPY pip.conf /etc/pip.conf
"""
PIP = """\
[global]
no-index = true
find-links = /opt/wheels
"""


def base_image() -> str:
    """Python 3.11 of Debian 12."""
    return _image("esg-test-base", "bookworm", PYTHON)


def redis_image() -> str:
    """Valkey 8.1 of Debian 13."""
    return _image("esg-test-redis", "trixie", REDIS)


def builder_image() -> str:
    """The base, with the wheels that the image needs and a pip that looks nowhere else."""
    base = base_image()
    tag = _tag("esg-test-builder", base, LOCK.read_text("utf-8"))
    if not has_image(tag):
        with TemporaryDirectory() as name:
            folder = Path(name)
            _fetch_wheels(folder / "wheels")
            (folder / "pip.conf").write_text(PIP, "utf-8")
            (folder / "Dockerfile").write_text(BUILDER.format(base=base), "utf-8")
            run("docker", "build", "--tag", tag, folder)
    return tag


def _fetch_wheels(folder: Path) -> None:
    """For the base's Python. What is needed there only sometimes is fetched in any case: pip would
    decide that for the Python it runs in."""
    with TemporaryDirectory() as name:
        lock = Path(name) / "requirements.lock"
        lock.write_text(re.sub(r" ; [^\\]*", " ", LOCK.read_text("utf-8")), "utf-8")
        options: list[object] = ["--no-deps", "--require-hashes", "--only-binary", ":all:"]
        options += ["--python-version", "3.11", "--requirement", lock, "--dest", folder]
        run(ROOT / ".venv/bin/python", "-m", "pip", "download", "--quiet", *options)


def _image(name: str, suite: str, packages: tuple[str, ...]) -> str:
    tag = _tag(name, suite, *packages)
    if not has_image(tag):
        with TemporaryDirectory() as folder:
            root = Path(folder) / "root"
            _unpack(_fetched(Path(folder) / "apt", suite, packages), root)
            _import(root, tag)
    return tag


def _tag(name: str, *parts: str) -> str:
    return f"{name}:{hashlib.sha256('|'.join(parts).encode()).hexdigest()[:12]}"


def _fetched(folder: Path, suite: str, packages: tuple[str, ...]) -> list[Path]:
    """The packages and all that they depend on."""
    for part in ("state/lists/partial", "cache/archives/partial", "parts"):
        (folder / part).mkdir(parents=True)
    (folder / "state/status").touch()
    (folder / "sources.list").write_text(f"deb [signed-by={KEYRING}] {_mirror()} {suite} main\n")
    settings = {
        "Dir::State": folder / "state",
        "Dir::State::status": folder / "state/status",
        "Dir::Cache": folder / "cache",
        "Dir::Etc::SourceList": folder / "sources.list",
        "Dir::Etc::SourceParts": folder / "parts",
        "APT::Install-Recommends": "false",
        "APT::Sandbox::User": "",
        "Acquire::Retries": "3",
    }
    (folder / "apt.conf").write_text("".join(f'{k} "{v}";\n' for k, v in settings.items()))
    apt = {"APT_CONFIG": str(folder / "apt.conf")}
    run("apt-get", "update", "-qq", env=apt)
    run("apt-get", "install", "-qq", "--yes", "--download-only", *packages, env=apt)
    return sorted((folder / "cache/archives").glob("*.deb"))


def _mirror() -> str:
    """The one that this machine uses."""
    lists = [Path("/etc/apt/sources.list"), *Path("/etc/apt/sources.list.d").glob("*")]
    for file in lists:
        text = file.read_text("utf-8") if file.is_file() else ""
        found = re.search(r"^(?:URIs:|deb\s+(?:\[[^]]*\])?)\s*(\S+/debian)/?\s", text, re.MULTILINE)
        if found:
            return found[1]
    raise AssertionError("this machine's apt names no mirror of Debian")


def _unpack(packages: list[Path], root: Path) -> None:
    for name in ("bin", "sbin", "lib", "lib64"):
        (root / "usr" / name).mkdir(parents=True)
        (root / name).symlink_to(f"usr/{name}")
    tar = ["tar", "--extract", "--no-same-owner", "--keep-directory-symlink", "--directory", root]
    for package in packages:
        with subprocess.Popen(
            ["dpkg-deb", "--fsys-tarfile", package], stdout=subprocess.PIPE
        ) as unpacking:
            run(*tar, stdin=unpacking.stdout)
        assert unpacking.returncode == 0, package
    for name in ("tmp", "data"):
        (root / name).mkdir(exist_ok=True)
        (root / name).chmod(0o777)


def _import(root: Path, tag: str) -> None:
    tar = ["tar", "--create", "--owner=0", "--group=0", "--numeric-owner", "--directory", root, "."]
    with subprocess.Popen([str(word) for word in tar], stdout=subprocess.PIPE) as packing:
        run("docker", "import", "-", tag, stdin=packing.stdout)
    assert packing.returncode == 0, tag
