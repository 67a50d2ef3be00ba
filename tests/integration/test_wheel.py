"""The wheel: built from a clean clone, installed into an empty environment, and used there.

The environment borrows the dependencies of this one, but nothing of the checkout can be imported.
"""

import csv
import json
import tarfile
import zipfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.examples import programs
from tests.support.paths import ROOT
from tests.support.wheel import Environment, built, files_here, installed, ran

FIXED = ("controller", "gateway", "invoker", "loadgen", "protos", "storage")
"""Folders at the top of the repository that are packages of `esg` by a link."""

FOR_DEVELOPERS = {"esg/core/ruff.toml", "esg/invoker/triton/requirements-models.in"}
USERS_OWN = ("client.py", "mesh.py", "protos/__init__.py", "storage/__init__.py", "cli/__init__.py")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built("wheel", tmp_path_factory.mktemp("built"))


@pytest.fixture(scope="module")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    return installed(wheel, tmp_path_factory.mktemp("environment"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A user's own, with modules that are called as ESG's once were."""
    for name in USERS_OWN:
        file = tmp_path / name
        file.parent.mkdir(exist_ok=True)
        file.write_text('raise ImportError("this is the user\'s own")\n')
    return tmp_path


def test_a_wheel_adds_one_package_and_its_metadata(environment: Environment) -> None:
    version = ran(environment.bin / "esg", "--version", cwd=Path("/")).stdout.split()[1]
    assert environment.after - environment.before == {"esg", f"esg_mesh-{version}.dist-info"}


def test_a_wheel_has_every_file_of_the_product_as_a_regular_file(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        entries = archive.infolist()
    expected = {
        name if top == "esg" else f"esg/{name}"
        for name in files_here()
        if (top := name.partition("/")[0]) in ("esg", *FIXED)
    }
    expected -= {f"esg/{name}" for name in FIXED} | FOR_DEVELOPERS
    assert {e.filename for e in entries if e.filename.startswith("esg/")} == expected
    assert "esg/py.typed" in expected  # type checkers of those who use the client look for it
    assert not [e.filename for e in entries if (e.external_attr >> 16) & 0o170000 == 0o120000]


def test_a_source_distribution_has_regular_files_under_esg_only(tmp_path: Path) -> None:
    with tarfile.open(built("sdist", tmp_path)) as archive:
        members = {m.name.partition("/")[2]: m for m in archive.getmembers()}
    assert members["esg/gateway/servicer.py"].isreg()
    assert not [name for name, member in members.items() if member.issym() or member.islnk()]
    assert not [name for name in members if name.partition("/")[0] in FIXED]


def test_folders_of_the_checkout_are_no_packages_where_a_wheel_is(
    environment: Environment, tmp_path: Path
) -> None:
    code = f"""
import esg
from importlib.util import find_spec
print([name for name in {(*FIXED, "tests", "benchmarks")!r} if find_spec(name)], esg.__file__)
"""
    found = ran(environment.bin / "python", "-c", code, cwd=tmp_path).stdout
    assert found.startswith("[] ")
    assert str(environment.bin.parent) in found


def test_importing_esg_imports_neither_grpc_nor_numpy(environment: Environment) -> None:
    code = "import sys, esg; print([name for name in ('grpc', 'numpy') if name in sys.modules])"
    assert ran(environment.bin / "python", "-c", code, cwd=Path("/")).stdout == "[]\n"


def test_a_researcher_compares_a_policy_of_their_own_on_a_trace(
    environment: Environment, tmp_path: Path
) -> None:
    (program,) = programs(ROOT / "CONTRIBUTING.md")
    (tmp_path / "my_policies.py").write_text(program, "utf-8")
    (tmp_path / "calls.csv").write_text("minute,count\n0,12\n1,18\n", "utf-8")
    policies, seeds = ["esg", "my_policies:Frugal"], 10
    compared = ("--policy", ",".join(policies), "--trace", "calls.csv", "--seeds", seeds)
    rows = ("--csv", "requests.csv", "--html", "page.html")
    found = json.loads(
        ran(environment.bin / "esg", "emulate", *compared, *rows, "--json", cwd=tmp_path).stdout
    )
    assert [one["policy"] for one in found["results"]] == policies
    difference = found["results"][1]["to_first"]
    assert difference["cost_relative_margin"] is not None
    assert difference["slo_hit_rate_margin"] is not None
    change, margin = difference["cost_relative"], difference["cost_relative_margin"]
    page = (tmp_path / "page.html").read_text("utf-8")
    assert f"<td>{100 * change:+.1f}% ±{100 * margin:.1f}</td>" in page
    with (tmp_path / "requests.csv").open(encoding="utf-8") as file:
        written = [(row["policy"], row["seed"]) for row in csv.DictReader(file)]
    assert Counter(written) == {
        (policy, str(seed)): 30 for policy in policies for seed in range(seeds)
    }

    (tmp_path / "sweep.toml").write_text("seeds = 2\nrequests = 20\nnodes = [4, 8]\n", "utf-8")
    own = ("--policy", "esg,my_policies:Frugal", "--grid", "sweep.toml", "--json")
    points = json.loads(ran(environment.bin / "esg", "emulate", *own, cwd=tmp_path).stdout)
    assert [point["point"] for point in points["points"]] == [{"nodes": 4}, {"nodes": 8}]


@pytest.fixture
def gateway(environment: Environment, folder: Path) -> Iterator[str]:
    """That of a small mesh, which the wheel's own `esg up` started in the user's folder."""
    esg, mesh = environment.bin / "esg", folder / "m"
    size = ("--nodes", 1, "--vcpus", 4, "--vgpus", 2, "--scale", 0.05, "--payload-scale", 0.001)
    ran(esg, "up", "--detach", "--port", 0, "--dir", mesh, *size, "--warm-start", cwd=folder)
    try:
        yield json.loads(ran(esg, "status", "--dir", mesh, "--json", cwd=folder).stdout)["gateway"]
    finally:
        ran(esg, "down", "--dir", mesh, cwd=folder)


def test_a_wheel_works_beside_a_users_own_modules_of_old_names(
    environment: Environment, folder: Path, gateway: str
) -> None:
    script = folder / "submit.py"
    script.write_text(
        f"""
from esg.client import Client, ClientError
with Client({gateway!r}) as mesh:
    result = mesh.submit("image-classification", b"a picture", slo_ms=60_000)
    print(result.raise_for_outcome().outcome.value)
    for application, payload, slo_ms in (
        ("image-clasification", b"a picture", None),
        ("image-classification", b"", None),
        ("image-classification", b"a picture", 0.001),
        ("image-classification", bytes(70 * 2**20), None),
    ):
        try:
            mesh.submit(application, payload, slo_ms=slo_ms)
        except ClientError as error:
            print(type(error).__name__)
for address in ("127.0.0.1", "127.0.0.1:1"):
    try:
        with Client(address, patience_s=0) as nobody:
            nobody.list_applications()
    except ClientError as error:
        print(type(error).__name__)
"""
    )
    assert ran(environment.bin / "python", script, cwd=folder).stdout.split() == [
        "done",
        "NotFound",
        *["InvalidRequest"] * 2,
        "TooLarge",
        "Misconfigured",
        "NoGateway",
    ]

    arguments = ("image-classification", script, "--slo-ms", 60_000, "--gateway", gateway, "--json")
    submitted = ran(environment.bin / "esg", "submit", *arguments, cwd=folder)
    assert json.loads(submitted.stdout)["requests"][0]["outcome"] == "done"

    load = ("--rate", "20/s", "--requests", 5, "--gateway", gateway, "--json")
    sent = ran(environment.bin / "loadgen", *load, cwd=folder)
    assert json.loads(sent.stdout)["requests"] == 5
