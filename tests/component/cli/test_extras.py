"""Commands in an environment without the extras of the distribution."""

import re
import subprocess
import sys
import tomllib

import pytest

from esg.cli.main import COMMANDS
from esg.console.lazy import DISTRIBUTION, MODULES, extra_to_install
from tests.support.paths import ROOT

EVERY = sorted(set().union(*MODULES.values()))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
MODULE_OF = {
    "grpcio-health-checking": "grpc_health",
    "grpcio-reflection": "grpc_reflection",
    "hdrhistogram": "hdrh",
    "nvidia-ml-py": "pynvml",
    "pillow": "PIL",
    "scikit-learn": "sklearn",
}
"""Distributions whose module has another name."""


def ran(command: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A command where no module of an extra can be imported."""
    code = (
        f"import sys; sys.modules.update(dict.fromkeys({EVERY!r})); "
        f"from {command} import run; sys.exit(run())"
    )
    return subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize("name", [name for name, (_, extra, _) in COMMANDS.items() if not extra])
def test_a_command_for_application_developers_needs_no_extra(name: str) -> None:
    done = ran("esg.cli.main", name, "--help")
    assert (done.returncode, done.stderr) == (0, "")


def test_the_applications_of_a_mesh_need_no_extra_and_those_of_a_catalog_do() -> None:
    done = ran("esg.cli.main", "apps", "--gateway", "127.0.0.1:1")
    assert (done.returncode, done.stderr[:20]) == (3, "error: no gateway at")
    done = ran("esg.cli.main", "apps")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.endswith("pip install 'esg-mesh[core]'\n")


def test_a_command_whose_extra_is_missing_names_it_in_one_line() -> None:
    done = ran("esg.cli.main", "up", "--nodes", "1")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith('error: esg up needs the extra "mesh" (')
    assert done.stderr.endswith(" is missing): pip install 'esg-mesh[mesh]'\n")


def test_a_shell_completes_a_command_whose_extra_is_missing_in_silence(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("_ESG_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", "esg\nup\n--")
    monkeypatch.setenv("COMP_CWORD", "2")
    done = ran("esg.cli.main")
    assert (done.returncode, done.stdout.split(), done.stderr) == (0, ["--help"], "")


def test_loadgen_without_its_extra_names_it_in_one_line() -> None:
    done = ran("esg.loadgen.main", "--rate", "light")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.endswith("pip install 'esg-mesh[loadgen]'\n")


def test_a_module_of_another_extra_than_the_commands_own_is_named_by_its_own() -> None:
    assert extra_to_install("sklearn", "mesh") == "evaluation"
    assert extra_to_install("numpy", "mesh") == "mesh"
    assert extra_to_install("numpy", "") == "core"
    assert extra_to_install("PIL", "all") == "all"
    assert extra_to_install("a_users_own", "mesh") is None


def modules_of(extra: str) -> set[str]:
    """The modules that the requirements of an extra bring, by pyproject.toml."""
    found: set[str] = set()
    for requirement in PROJECT["optional-dependencies"][extra]:
        match = re.match(r"([\w-]+)(?:\[([\w,]+)\])?", requirement)
        assert match is not None
        name, of_it = match[1], (match[2] or "").split(",")
        if name == DISTRIBUTION:
            found.update(*map(modules_of, of_it))
        else:
            found.add(MODULE_OF.get(name, name.replace("-", "_")))
    return found


def test_the_table_of_extras_is_that_of_pyproject() -> None:
    assert PROJECT["name"] == DISTRIBUTION
    extras = PROJECT["optional-dependencies"]
    assert sorted(extras) == sorted([*MODULES, "all", "dev"])
    for extra, modules in MODULES.items():
        assert modules == modules_of(extra)
    assert modules_of("all") == set().union(*MODULES.values())


def test_every_command_has_an_extra_that_exists() -> None:
    assert {extra for _, extra, _ in COMMANDS.values()} <= {*MODULES, "all", ""}


def imported_with(extra: str) -> list[str]:
    """The modules that must do with an extra: of its commands, and of the services."""
    found = [
        f"esg.cli.{at.partition(':')[0]}" for at, of_it, _ in COMMANDS.values() if of_it == extra
    ]
    services = (
        "gateway.__main__",
        "controller.__main__",
        "invoker.__main__",
        "invoker.emulated.__main__",
    )
    found += [f"esg.{service}" for service in services] if extra == "mesh" else []
    return found + ["esg.loadgen.command"] * (extra == "loadgen")


@pytest.mark.parametrize("extra", ["", *(extra for extra in MODULES if imported_with(extra))])
def test_an_extra_has_all_that_its_commands_and_services_import(extra: str) -> None:
    blocked = sorted(set(EVERY) - MODULES.get(extra, set()))
    code = f"""
import sys
from importlib import import_module
sys.modules.update(dict.fromkeys({blocked!r}))
for name in {imported_with(extra)!r}:
    import_module(name)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
