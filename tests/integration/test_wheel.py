"""The wheel: built from a clean clone, installed into an empty environment, and used there.

The environment borrows the dependencies of this one, but nothing of the checkout can be imported.
"""

import csv
import json
import shutil
import tarfile
import zipfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from email.parser import Parser
from importlib.metadata import distribution
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
from packaging.requirements import Requirement
from PIL import Image, ImageChops

from tests.deploy.engine import free_ports
from tests.support.examples import programs, write_files
from tests.support.paths import ROOT
from tests.support.waiting import LIMIT_S
from tests.support.wheel import Environment, built, files_here, installed, ran

FIXED = ("controller", "gateway", "invoker", "loadgen", "protos", "storage")
"""Folders at the top of the repository that are packages of `esg` by a link."""

FOR_DEVELOPERS = {"esg/core/ruff.toml", "esg/invoker/triton/requirements-models.in"}
USERS_OWN = ("client.py", "mesh.py", "protos/__init__.py", "storage/__init__.py", "cli/__init__.py")

LEFT_OUT = ("..", "__pycache__")
"""What a distribution has besides its packages: commands, and compiled modules."""
PICTURE = ROOT / "esg" / "cli" / "demo" / "demo.png"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built("wheel", tmp_path_factory.mktemp("built"))


@pytest.fixture(scope="module")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    return installed(wheel, tmp_path_factory.mktemp("environment"))


@pytest.fixture(scope="module")
def without_extras(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """What `pip install` makes of the wheel alone: with the distributions that it requires, those
    that they require, and no others."""
    home = tmp_path_factory.mktemp("without-extras")
    made = installed(wheel, home, borrowed=False)
    (packages,) = home.glob("lib/python*/site-packages")
    (metadata,) = packages.glob("esg_mesh-*.dist-info/METADATA")
    required = Parser().parsestr(metadata.read_text("utf-8")).get_all("Requires-Dist") or []
    done: set[str] = set()
    while required:
        wanted = Requirement(required.pop())
        if wanted.name in done or (wanted.marker and not wanted.marker.evaluate({"extra": ""})):
            continue
        done.add(wanted.name)
        found = distribution(wanted.name)
        required += found.requires or []
        tops = {file.parts[0] for file in found.files or [] if file.parts[0] not in LEFT_OUT}
        for top in tops:
            (packages / top).symlink_to(Path(str(found.locate_file(top))))
    return made


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


@contextmanager
def mesh_up(
    environment: Environment, folder: Path, *options: object, **settings: object
) -> Iterator[str]:
    """The gateway of a mesh that the wheel's own `esg up` started in the user's folder."""
    esg, mesh = environment.bin / "esg", folder / "m"
    up = ("up", "--detach", "--port", 0, "--dir", mesh, "--nodes", 1)
    ran(esg, *up, *options, cwd=folder, **settings)
    try:
        yield json.loads(ran(esg, "status", "--dir", mesh, "--json", cwd=folder).stdout)["gateway"]
    finally:
        ran(esg, "down", "--dir", mesh, cwd=folder)


QUICK = ("--vcpus", 4, "--vgpus", 2, "--scale", 0.05, "--payload-scale", 0.001, "--warm-start")


@pytest.fixture
def gateway(environment: Environment, folder: Path) -> Iterator[str]:
    with mesh_up(environment, folder, *QUICK) as address:
        yield address


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


DEVELOPER = """
import sys
from importlib.util import find_spec
from pathlib import Path

from esg.client import (
    AlreadyExists, Client, DeadlineExceeded, Exhausted, Forbidden, InvalidRequest, Misconfigured,
    NoGateway, NotFound, PipelineStage, RequestCancelled, RequestFailed, TooLarge, Unauthenticated,
)

gateway, token, limited = sys.argv[1:]
assert not [name for name in ("msgspec", "numpy", "redis", "tritonclient") if find_spec(name)]


def raised(kind, call, *arguments, **options):
    try:
        call(*arguments, **options)
    except kind as error:
        assert type(error) is kind, error
        return error
    raise AssertionError(f"no {kind.__name__}")


APPLICATION, PICTURE = "image-classification", Path("picture.png").read_bytes()
with Client(gateway, token=token) as mesh:
    result = mesh.submit(APPLICATION, PICTURE, slo_ms=60_000).raise_for_outcome()
    assert list(result.outputs) == ["classification"]
    later = mesh.submit_async(APPLICATION, PICTURE, slo_ms=60_000, request_id="later")
    assert mesh.fetch(later).outputs == mesh.fetch(later).outputs
    waiting = mesh.get(later)
    assert list(waiting.output_bytes) == ["classification"] and waiting.fetch_within_s > 0
    stages = [PipelineStage("depth", name="stage0")]
    for number in range(1, 12):
        before = (f"stage{number - 1}",)
        stages.append(PipelineStage("depth", name=f"stage{number}", after=before))
    mesh.register_application("slow", stages, slo_ms=60_000)
    request = mesh.submit_async("slow", PICTURE)
    while not mesh.cancel(request):  # it may be quicker
        request = mesh.submit_async("slow", PICTURE)
    error = raised(RequestCancelled, mesh.fetch(request).raise_for_outcome)
    assert isinstance(error, RequestFailed) and error.result.outcome == "cancelled"

    raised(NotFound, mesh.submit, "image-clasification", PICTURE)
    raised(InvalidRequest, mesh.submit, APPLICATION, b"")
    raised(InvalidRequest, mesh.submit, APPLICATION, PICTURE, slo_ms=0.001)
    raised(TooLarge, mesh.submit, APPLICATION, bytes(70 * 2**20))
    raised(AlreadyExists, mesh.submit_async, APPLICATION, b"another", request_id="later")
    while True:
        try:
            mesh.fetch(mesh.submit_async("slow", PICTURE), timeout_s=0.001)  # it may be quicker
        except DeadlineExceeded:
            break
    raised(Forbidden, mesh.delete_application, APPLICATION)
    raised(Forbidden, mesh.reload_function, "depth")
    assert mesh.cancel(later) is False

with Client(gateway, token=limited) as mesh:
    mesh.submit(APPLICATION, PICTURE, slo_ms=60_000)
    error = raised(Exhausted, mesh.submit, APPLICATION, PICTURE)
    assert error.retry_after_s > 0
with Client(gateway, token="esg_no_such_token") as mesh:
    raised(Unauthenticated, mesh.list_applications)
with Client("127.0.0.1:1", patience_s=0) as mesh:
    assert raised(NoGateway, mesh.list_applications).address == "127.0.0.1:1"
raised(Misconfigured, Client, "127.0.0.1")
print("handled")
"""


def test_an_application_developer_installs_the_client_submits_and_handles_each_error(
    without_extras: Environment, environment: Environment, folder: Path
) -> None:
    esg = environment.bin / "esg"
    add = (esg, "tokens", "add", "--file", "tokens.toml")
    token = ran(*add, "developer", cwd=folder).stdout.strip()
    limited = ran(*add, "limited", "--requests-per-s", 0.001, "--burst", 1, cwd=folder).stdout
    (folder / "hour.py").write_text(DEVELOPER, "utf-8")
    shutil.copy(PICTURE, folder / "picture.png")
    tokens = folder / "tokens.toml"
    with mesh_up(environment, folder, *QUICK, ESG_GATEWAY_TOKENS=tokens) as gateway:
        command = (without_extras.bin / "python", "hour.py", gateway, token, limited.strip())
        assert ran(*command, cwd=folder).stdout == "handled\n"
        submit = ("submit", "image-classification", "picture.png", "--slo-ms", 60_000, "--no-wait")
        call: dict[str, Any] = {"cwd": folder, "ESG_GATEWAY": gateway, "ESG_TOKEN": token}
        esg = without_extras.bin / "esg"
        request = ran(esg, *submit, **call).stdout.strip()
        ran(esg, "get", request, "--out", "results", **call)
        assert "--out DIR fetches them" in ran(esg, "get", request, **call).stdout
        assert [file.name for file in (folder / "results").iterdir()] == [
            f"{request}.classification"
        ]


SKETCHES = """
[applications.sketch]
chain = ["edges"]
slo_ms = 60000
"""


def test_a_platform_engineer_changes_a_function_of_a_running_mesh_and_reads_its_metrics(
    environment: Environment, folder: Path
) -> None:
    write_files(ROOT / "docs" / "functions.md", folder)
    (folder / "sketches.toml").write_text(SKETCHES, "utf-8")
    shutil.copy(PICTURE, folder / "picture.png")
    handler = folder / "edges" / "handler.py"
    esg, metrics = environment.bin / "esg", free_ports(1)[0]

    def sketch(into: str) -> Image.Image:
        ran(esg, "submit", "sketch", "picture.png", "--out", into, **call)
        return Image.open(folder / into / "picture.png.edges.png").convert("L")

    slices = ("--catalog", "catalog.toml", "--slices", "cpu:1", "--vcpus", 2)
    own = {"ESG_CONTROLLER_METRICS_PORT": metrics, "ESG_INVOKER_TRITON": ROOT / ".venv-models"}
    with mesh_up(environment, folder, *slices, **own) as gateway:
        call: dict[str, Any] = {"cwd": folder, "ESG_GATEWAY": gateway}
        ran(esg, "apps", "add", "sketches.toml", **call)
        assert "sketch" in ran(esg, "apps", **call).stdout
        before = sketch("before")

        written = handler.read_text("utf-8")
        handler.write_text("import no_such_module\n", "utf-8")
        refused = ran(esg, "reload", "edges", **call, code=1)
        assert "node0: not reloaded: " in refused.stderr
        assert "No module named 'no_such_module'" in refused.stderr
        assert sketch("still").tobytes() == before.tobytes()

        dark = written.replace('outputs["edges"] * 255', '255 - outputs["edges"] * 255')
        handler.write_text(dark, "utf-8")
        assert ran(esg, "reload", "edges", **call).stdout == "node0: edges reloaded\n"
        difference = ImageChops.difference(sketch("after"), ImageChops.invert(before))
        assert difference.getextrema()[1] <= 1  # both are rounded

        with urlopen(f"http://127.0.0.1:{metrics}/metrics", timeout=LIMIT_S) as page:
            read = page.read().decode().splitlines()
        assert 'esg_requests_total{application="sketch",outcome="done"} 3.0' in read
        assert 'esg_requests_total{application="sketch",outcome="failed"} 0.0' in read
