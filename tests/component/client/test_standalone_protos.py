"""The .proto files alone: copied to an empty folder, they make a client that calls a gateway."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from esg.runtime.rpc.addresses import DEFAULT_GATEWAY
from tests.support.examples import BLOCK, programs
from tests.support.paths import ROOT
from tests.support.running_gateway import playing_mesh
from tests.support.scripted_controller import KNOWN
from tests.support.waiting import COMMAND_LIMIT_S

PAGE = ROOT / "docs" / "client.md"

WITHOUT_ESG = """
import os, sys
sys.meta_path = [finder for finder in sys.meta_path if "ditable" not in repr(finder)]
sys.path = [path for path in sys.path if not os.path.exists(os.path.join(path, "esg/__init__.py"))]
"""
"""A stranger has not installed ESG, and this environment has."""


GO_TOOLS = ("go", "protoc", "protoc-gen-go", "protoc-gen-go-grpc")
GO_SOURCES = "/usr/share/gocode"
"""Where Debian has gRPC for Go; in GOPATH, if it is elsewhere."""


def block(words: str) -> str:
    """The only code block of the page with these words in it."""
    blocks = [found["fenced"] or "" for found in BLOCK.finditer(PAGE.read_text("utf-8"))]
    (only,) = (text for text in blocks if words in text)
    return only


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder in which a reader has typed what the page says."""
    folder = tmp_path / "stranger"
    folder.mkdir()
    ran(folder, "bash", "-ec", block("grpc_tools.protoc"))
    return folder


def ran(folder: Path, *command: str) -> str:
    environ = {n: v for n, v in os.environ.items() if not n.startswith(("ESG_", "PYTHON"))}
    environ |= {
        "CHECKOUT": str(ROOT),
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    }
    done = subprocess.run(
        command,
        cwd=folder,
        env=environ,
        capture_output=True,
        text=True,
        timeout=COMMAND_LIMIT_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_generated_client_calls_a_gateway_where_nothing_else_of_esg_is(
    folder: Path, redis_url: str, tmp_path: Path
) -> None:
    (program,) = (text for text in programs(PAGE) if "insecure_channel" in text)
    with playing_mesh(redis_url, tmp_path) as (_, address):
        own = WITHOUT_ESG + program.replace(DEFAULT_GATEWAY, address)
        told = ran(folder, "python", "-c", f"{own}\nprint(gateway_v1_pb2.__file__)")
    assert f"{KNOWN} 900.0 ms\n" in told
    assert told.endswith(f"{folder}/esg/protos/gateway_v1_pb2.py\n")


@pytest.mark.skipif(
    not all(map(shutil.which, GO_TOOLS)), reason="needs Go with gRPC, as Debian has them"
)
def test_client_generated_for_go_calls_a_gateway(
    folder: Path, redis_url: str, tmp_path: Path
) -> None:
    program = folder / "src" / "submit" / "main.go"
    program.parent.mkdir(parents=True)
    program.write_text(block("package main"), "utf-8")
    (folder / "photo.jpg").write_bytes(b"abc")
    typed = block("--go_out").replace(GO_SOURCES, os.environ.get("GOPATH", GO_SOURCES))
    with playing_mesh(redis_url, tmp_path) as (_, address):
        typed = typed.replace(DEFAULT_GATEWAY, address).replace("image-classification", KNOWN)
        told = ran(folder, "bash", "-ec", typed)
    assert told == "OUTCOME_DONE true 70 ms\nsecond 3 bytes\n"
