"""Every file that anything of the mesh reads."""

from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given

from esg.cli.evaluation.emulate_options import EmulateOptions
from esg.cli.evaluation.grid import GridPoint, read_grid
from esg.cli.evaluation.saved_results import read_result
from esg.cli.requests.application_file import read_applications
from esg.console.arrivals import ArrivalOptions
from esg.console.lazy import LazyCommand
from esg.core.catalog.file import MANIFEST, load_catalog, load_profile
from esg.core.catalog.model import Catalog
from esg.core.catalog.profile import Prices
from esg.core.catalog.shipped import DEFAULT
from esg.core.journal.checksums import read_groups
from esg.core.journal.format import read_segment
from esg.errors import Rejected
from esg.local.run_directory import RunDirectory
from esg.runtime.security.authority import make_certificates, names_in
from esg.runtime.security.tls import Identity, authorities
from esg.runtime.security.tokens import read_entries
from esg.runtime.settings_file import Settings
from esg.workload.saved import read_arrivals
from esg.workload.traces.read import FORMATS, read_trace
from tests.fuzz.broken import spoilt
from tests.fuzz.budget import MOST_BYTES, fuzzed, gives_a_value_or_is_refused
from tests.support.paths import ROOT
from tests.support.sealed import plain

GOLDEN = ROOT / "tests" / "golden" / "heavy-100.journal"
PRICES = Prices(vcpu_usd_per_hour=0.034, vgpu_usd_per_hour=0.67)
FIRST_LINES = 8

CATALOG = b"""
[prices]
vcpu_usd_per_hour = 0.034
[cluster]
nodes = 2
vcpus = 4
vgpus = 2
slice_memory_mb = 1000
[functions.depth]
profile = "depth.toml"
cold_start_ms = 100.5
input_mb = 1.5
memory_mb = 500
[functions.label]
folder = "label"
[applications.pair]
chain = ["depth", "label"]
slo_ms = 2000
[applications.fork]
slo_scale = 1.5
late_requests = "drop"
[applications.fork.stages.a]
function = "depth"
[applications.fork.stages.b]
function = "label"
after = ["a"]
"""
SEVERAL_KINDS = CATALOG.replace(
    b"nodes = 2\nvcpus = 4\nvgpus = 2\nslice_memory_mb = 1000\n",
    b"""kind = "1g.10gb"
classes = [
    { count = 2, vcpus = 4, slices = "2x1g.10gb" },
    { count = 1, vcpus = 8, slices = "3g.40gb + gpu-L4 + 1" },
]
[kinds]
"3g.40gb" = {}
gpu-L4 = { memory_mb = 24_000, usd_per_hour = 0.8 }
""",
)
EMULATE = LazyCommand("emulate", "esg.cli.evaluation.emulate:emulate", "")
GRID = b"""
policy = ["esg", "apex"]
seeds = 3
nodes = [8, 16]
slo-scale = [0.8, 1.2]
cold-start = [true, false]
rate = "heavy"
trace = "day.csv"
"""
FIGURES = (
    b'"requests": 3, "slo_hit_rate": 0.5, "cost_usd_per_1k_requests": 0.2, '
    b'"latency_ms": {"p50": 1, "p90": 2.5, "p99": null}'
)
EMULATED = (
    b'{"command": "esg emulate", "setting": {"nodes": 8, "slo_scale": 1.2}, "seeds": [0, 1], '
    b'"results": [{"policy": "esg", "hit_rate_by_application": {"photo": 1}, '
    b'"cost_usd_per_1k_by_application": {"photo": 0.1}, "runs": [{"seed": 0, '
    + FIGURES
    + b"}], "
    + FIGURES
    + b"}]}"
)
LOADED = (
    b'{"policy": "apex", "gateway": "g:1", "nodes": [{"vcpus": 16, "vgpus": 7}], '
    b'"plan": {"rate": "light"}, "slo_ms": {"photo": 526}, "applications": {"photo": {'
    + FIGURES
    + b"}}, "
    + FIGURES
    + b"}"
)
EXTENDING = b"""
extends = "default"
[cluster]
nodes = 2
[applications.pair]
chain = ["depth", "segmentation"]
"""
MANIFEST_TEXT = b"""
description = "A label"
network = "none"
profile = "profile.toml"
cold_start_ms = 10
input_mb = 1
memory_mb = 100
handler = "handler.py:Handler"
cpu = "within_job"
"""
MODELLED = b"""
function = "depth"
[provenance]
source = "invented"
[model]
base_ms = 80
cpu_share = 0.2
parallel_fraction = 0.9
gpu_fixed_share = 0.3
relative_std = 0.02
[model.kinds."3g.40gb"]
vgpus = [1, 2]
speedup = 2.5
[model.kinds.gpu-L4]
gpu_growth = { 1 = 0.4, 2 = 0.5, 4 = 0.8 }
max_portion = 4
[grid]
batch = [1, 2, 4]
vcpus = [1, 2]
vgpus = [1, 2]
"""
TABLED = MODELLED.replace(
    b"parallel_fraction = 0.9\ngpu_fixed_share = 0.3",
    b'cpu = "across_jobs"\ngpu_growth = { 1 = 1.0, 2 = 1.5, 4 = 2 }',
)
MEASURED = b"""
function = "depth"
[provenance]
source = "measured"
[measured]
table = "table.csv"
relative_std = 0.1
"""
TABLE = b"""# a comment
batch,vcpus,vgpus,time_ms,slices_ms,after_ms
1,1,1,80,,
2,1,1,oom,,
4, 2, 2, 120.5, 90, 10.25
"""
TABLE_OF_KINDS = b"batch,vcpus,vgpus,time_ms,kind\n1,1,1,80,\n1,1,1,30,3g.40gb\n2,1,1,oom,gpu-L4\n"
SETTINGS = b"""
[common]
time_scale = 0.5
redis_url = "redis://127.0.0.1:6379/0"
insecure = false
[gateway]
port = 50051
max_requests_per_s = 10.5
[controller]
policy = "esg"
prewarm = true
[invoker]
slices = "emulated:7"
"""
TOKENS = f"""
[alice]
sha256 = "{"0a" * 32}"
expires = "2027-02-16T08:00:00Z"
former_sha256 = "{"0b" * 32}"
former_expires = "2027-02-16"
requests_per_s = 50.5
in_flight = 200
[root]
sha256 = "{"ff" * 32}"
operator = true
bytes_per_day = 1000
""".encode()
AZURE_2019 = b"HashOwner,HashApp,HashFunction,Trigger,1,2,3\na,b,c,http,0,3,1\na,b,d,timer,1,1,1\n"
AZURE_2021 = b"app,func,end_timestamp,duration\na,f,10.5,0.5\nb,g,11.25,0.125\n"
TIMESTAMPS = b"timestamp\n0.5\n1.25\n7\n"
ISO = b"time\n2026-01-01T00:00:00Z\n2026-01-01T00:00:01.5Z\n"
COUNTS = b"count\n3\n1\n0\n2\n"
QUOTED = b'"timestamp","name"\n"1.5","a,b"\n"2.5","c\nd"\n'
ARRIVALS = b"at_us,application\n0,photo\n1500,depth\n1500,photo\n"
RECORD = b'{"supervisor": {"pid": 1, "began": 7}, "up": true, "processes": [], "scratch": "/x"}'


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A good catalog and all that belongs to it, to be spoilt one file at a time."""
    folder = tmp_path_factory.mktemp("fuzz")
    (folder / "label").mkdir()
    for name, content in good().items():
        (folder / name).write_bytes(content)
    return folder


def good() -> dict[str, bytes]:
    return {
        "catalog.toml": CATALOG,
        "depth.toml": MODELLED,
        "measured.toml": MEASURED,
        "table.csv": TABLE,
        f"label/{MANIFEST}": MANIFEST_TEXT,
        "label/profile.toml": TABLED.replace(b'"depth"', b'"label"'),
        "label/handler.py": b"class Handler: ...\n",
    }


def test_files_that_are_spoilt_below_were_good(folder: Path) -> None:
    """Otherwise every example would fail early, and nothing be found."""
    assert isinstance(load_catalog(folder / "catalog.toml"), Catalog)
    (folder / "k").write_bytes(SEVERAL_KINDS)
    assert len(load_catalog(folder / "k").functions["depth"].profile.kinds) == 3
    (folder / "e").write_bytes(EXTENDING)
    assert "pair" in load_catalog(folder / "e").applications
    assert [told.name for told in read_applications(folder / "catalog.toml")] == ["pair", "fork"]
    load_profile(folder / "measured.toml", PRICES)
    for name, content in {"s": SETTINGS, "t": TOKENS, "a": ARRIVALS}.items():
        (folder / name).write_bytes(content)
    assert Settings({}, folder / "s").says("gateway", "port")
    assert len(read_entries(folder / "t")) == 2
    assert len(list(read_arrivals(folder / "a"))) == 3
    for content in (EMULATED, LOADED):
        (folder / "r").write_bytes(content)
        assert read_result(folder / "r").runs
    for content in (AZURE_2019, AZURE_2021, TIMESTAMPS, ISO, COUNTS, QUOTED):
        (folder / "trace").write_bytes(content)
        read_trace(folder / "trace")


@fuzzed()
@given(spoilt([CATALOG, SEVERAL_KINDS, EXTENDING, DEFAULT.read_bytes()]))
def test_a_catalog(folder: Path, content: bytes) -> None:
    (folder / "spoilt.toml").write_bytes(content)
    gives_a_value_or_is_refused(lambda: load_catalog(folder / "spoilt.toml"))


@fuzzed()
@given(spoilt([CATALOG, EXTENDING]))
def test_applications_for_a_live_mesh(folder: Path, content: bytes) -> None:
    (folder / "spoilt.toml").write_bytes(content)
    gives_a_value_or_is_refused(lambda: read_applications(folder / "spoilt.toml"))


@fuzzed()
@given(spoilt([MANIFEST_TEXT]))
def test_the_manifest_of_a_function(folder: Path, content: bytes) -> None:
    (folder / "label" / MANIFEST).write_bytes(content)
    try:
        gives_a_value_or_is_refused(lambda: load_catalog(folder / "catalog.toml"))
    finally:
        (folder / "label" / MANIFEST).write_bytes(MANIFEST_TEXT)


@fuzzed()
@given(spoilt([MODELLED, TABLED, MEASURED]))
def test_a_profile(folder: Path, content: bytes) -> None:
    (folder / "profile.toml").write_bytes(content)
    gives_a_value_or_is_refused(lambda: load_profile(folder / "profile.toml", PRICES))


@fuzzed()
@given(spoilt([TABLE, TABLE_OF_KINDS]))
def test_a_table_of_measured_times(folder: Path, content: bytes) -> None:
    (folder / "table.csv").write_bytes(content)
    try:
        gives_a_value_or_is_refused(lambda: load_profile(folder / "measured.toml", PRICES))
    finally:
        (folder / "table.csv").write_bytes(TABLE)


@fuzzed()
@given(spoilt([SETTINGS]))
def test_settings(folder: Path, content: bytes) -> None:
    (folder / "settings.toml").write_bytes(content)
    gives_a_value_or_is_refused(lambda: Settings({}, folder / "settings.toml"))


@fuzzed()
@given(spoilt([TOKENS]))
def test_tokens(folder: Path, content: bytes) -> None:
    (folder / "tokens.toml").write_bytes(content)
    gives_a_value_or_is_refused(lambda: read_entries(folder / "tokens.toml"))


@fuzzed()
@given(spoilt(["\n".join([*plain(GOLDEN)[:FIRST_LINES], ""]).encode()]))
def test_a_journal(content: bytes) -> None:
    def read() -> None:
        lines = iter(content.decode("utf-8", "replace").splitlines())  # as if its checksums fitted
        for _ in read_segment(lines).entries:
            pass

    gives_a_value_or_is_refused(read)


@fuzzed()
@given(spoilt([b"".join(GOLDEN.read_bytes().splitlines(keepends=True)[:FIRST_LINES])]))
def test_checksums_of_a_journal(content: bytes) -> None:
    def read() -> None:
        for may_be_torn in (False, True):
            for _ in read_groups(BytesIO(content), may_be_torn=may_be_torn):
                pass

    gives_a_value_or_is_refused(read)


@pytest.mark.parametrize("format", ["auto", *FORMATS])
@fuzzed(0.5)
@given(spoilt([AZURE_2019, AZURE_2021, TIMESTAMPS, ISO, COUNTS, QUOTED]))
def test_a_trace(folder: Path, format: str, content: bytes) -> None:
    (folder / "trace.csv").write_bytes(content)
    gives_a_value_or_is_refused(lambda: read_trace(folder / "trace.csv", format))


@fuzzed()
@given(spoilt([ARRIVALS]))
def test_saved_arrivals(folder: Path, content: bytes) -> None:
    (folder / "arrivals.csv").write_bytes(content)
    gives_a_value_or_is_refused(lambda: list(read_arrivals(folder / "arrivals.csv")))


@fuzzed()
@given(spoilt([GRID]))
def test_a_grid(folder: Path, content: bytes) -> None:
    file = folder / "grid.toml"
    file.write_bytes(content)
    context = EMULATE.make_context("emulate", [])
    none = GridPoint(options=EmulateOptions(), arrivals=ArrivalOptions(), catalog=None, varied={})
    gives_a_value_or_is_refused(lambda: read_grid(file, none, context))


@fuzzed()
@given(spoilt([EMULATED, LOADED]))
def test_a_saved_result(folder: Path, content: bytes) -> None:
    (folder / "saved.json").write_bytes(content)
    gives_a_value_or_is_refused(lambda: read_result(folder / "saved.json"))


@fuzzed()
@given(spoilt([RECORD]))
def test_the_record_of_a_mesh(folder: Path, content: bytes) -> None:
    (folder / "mesh.json").write_bytes(content)
    gives_a_value_or_is_refused(RunDirectory(folder).read)


@pytest.fixture(scope="module")
def pem(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pem")
    make_certificates(folder, hosts=(), days=1)
    return folder


@fuzzed()
@given(change=spoilt([b"-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"]))
def test_certificates_and_keys(pem: Path, change: bytes) -> None:
    for name in ("gateway.pem", "gateway.key"):
        original = (pem / name).read_bytes()
        (pem / name).write_bytes(original[: len(original) // 2] + change)
        try:
            gives_a_value_or_is_refused(Identity(pem / "gateway.pem", pem / "gateway.key").pair)
            gives_a_value_or_is_refused(lambda: authorities([pem / "gateway.pem"]))
            gives_a_value_or_is_refused(lambda: names_in(pem / "gateway.pem"))
        finally:
            (pem / name).write_bytes(original)


def test_the_harness_notices(folder: Path) -> None:
    """Another error than a refusal fails, and so does what takes all memory."""

    def wrong() -> Any:
        raise KeyError("x")

    def refused() -> Any:
        raise Rejected("no")

    gives_a_value_or_is_refused(refused)
    with pytest.raises(KeyError):
        gives_a_value_or_is_refused(wrong)
    with pytest.raises(MemoryError):
        gives_a_value_or_is_refused(lambda: bytes(2 * MOST_BYTES))
