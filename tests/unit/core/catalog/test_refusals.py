"""What is refused of catalogs, profiles and measured tables, and in which words.

A row is one mistake: what stands in a file, what stands there instead, and the one line that says
where that is and what to do about it; "..." stands for any words.
"""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from esg.core.catalog.file import load_catalog, load_profile
from esg.core.catalog.profile import Prices
from esg.errors import Rejected
from tests.unit.core.catalog.test_file import FILES, PHASED_TABLE, TABLE, load

Mistakes = dict[tuple[str, str], str]

SLO = "slo_ms = 400"
DETECT = "[applications.street.stages.detect]\n"
CARS = 'function = "classify"\nafter = ["detect"]'
JOIN = 'after = ["cars", "signs"]'
STREET = "[applications.street]"
SHARE = "gpu_fixed_share = 0.2"

SHAPES: Mistakes = {
    (DETECT, f'{DETECT}after = ["merge"]\n'): (
        "catalog.toml: applications.street: ... cycle (...detect -> ...); remove one of its edges"
    ),
    (JOIN, 'after = ["merge", "signs"]'): (
        "catalog.toml: applications.street: ... (merge -> merge); remove one of its edges"
    ),
    (CARS, 'function = "classify"'): (
        "catalog.toml: applications.street: 2 roots (cars, detect); ...put a single stage first..."
    ),
    (JOIN, 'after = ["cars", "sign"]'): (
        "catalog.toml: applications.street...'merge' ...'sign'; did you mean 'signs'?"
    ),
    (JOIN, 'after = ["cars", "cars", "signs"]'): (
        "catalog.toml: applications.street...merge...'cars' ...twice..."
    ),
    (CARS, 'function = "clasify"\nafter = ["detect"]'): (
        "catalog.toml: applications.street.stages.cars.function: ...; did you mean 'classify'?"
    ),
    (CARS, 'after = ["detect"]'): (
        "catalog.toml: applications.street.stages.cars.function: ...'cars'; known: detect, classify"
    ),
    (STREET, f'[applications.lane]\nchain = ["detekt"]\n{STREET}'): (
        "catalog.toml: applications.lane.chain: ...'detekt'; did you mean 'detect'?"
    ),
    (STREET, f'[applications.lane]\nchain = ["detect", "detect"]\n{STREET}'): (
        "catalog.toml: applications.lane: stage 'detect' appears twice; ...a name of its own"
    ),
    (STREET, f'[applications."lane/2"]\nchain = ["detect"]\n{STREET}'): (
        "catalog.toml: applications.lane/2: ...a name has no slash...; change it"
    ),
    (STREET, f'[applications."lane@2"]\nchain = ["detect"]\n{STREET}'): (
        "catalog.toml: applications.lane@2: ...a name has no @, which marks versions; change it"
    ),
    # attack: A2
    (STREET, f'[applications.lane.stages."@"]\nfunction = "detect"\n{STREET}'): (
        "catalog.toml: applications.lane: stage '@': ...does not begin with @...; change it"
    ),
    (STREET, f"[applications.lane]\nchain = []\n{STREET}"): (
        "catalog.toml: applications.lane: no stages; name at least one"
    ),
    (STREET, f"[applications.lane]\nslo_ms = 1\n{STREET}"): (
        "catalog.toml: applications.lane.chain: ...either chain or stages; give one of them"
    ),
    (SLO, f'{SLO}\nchain = ["detect"]'): (
        "catalog.toml: applications.street.chain: ...either chain or stages; give one of them"
    ),
}

SLOS: Mistakes = {
    (SLO, "slo_ms = 0"): (
        "catalog.toml: applications.street.slo_ms: is 0; it must be greater than 0"
    ),
    (SLO, "slo_scale = -1"): (
        "catalog.toml: applications.street.slo_scale: is -1; it must be greater than 0"
    ),
    # attack: A1
    (SLO, "slo_scale = 1e12"): (
        "catalog.toml: applications.street: ...1e+12 times L is longer than years; ..."
    ),
    (SLO, "slo_ms = 0.0001"): (
        "catalog.toml: applications.street: the SLO is 0 us; it must be positive"
    ),
    (SLO, f'{SLO}\nlate_requests = "dorp"'): (
        "catalog.toml: applications.street.late_requests: unknown way 'dorp'; did you mean 'drop'?"
    ),
    (SLO, f"{SLO}\nslo_scale = 1.0"): (
        "catalog.toml: applications.street.slo_ms: give either slo_ms or slo_scale, not both"
    ),
}

RESOURCES: Mistakes = {
    ("nodes = 2", "nodes = 0"): "catalog.toml: cluster.nodes: is 0; it must be at least 1",
    ("vcpus = 16", "vcpus = -16"): "catalog.toml: cluster.vcpus: is -16; it must be at least 1",
    ("vgpus = 7", "vgpus = 0"): "catalog.toml: cluster.vgpus: is 0; it must be at least 1",
    ("slice_memory_mb = 10_000", "slice_memory_mb = 0"): (
        "catalog.toml: cluster.slice_memory_mb: is 0; it must be at least 1"
    ),
    ("memory_mb = 500", "memory_mb = -1"): (
        "catalog.toml: functions.detect.memory_mb: is -1; it must be at least 1"
    ),
    ("cold_start_ms = 1000", "cold_start_ms = -1"): (
        "catalog.toml: functions.detect.cold_start_ms: is -1; it must be at least 0"
    ),
    ("cold_start_ms = 1000", "cold_start_ms = 1e308"): (
        "catalog.toml: functions.detect.cold_start_ms: is 1e+308; it must be at most ..."
    ),
    ("cold_start_ms = 1000", f"cold_start_ms = 1{'0' * 400}"): (
        "catalog.toml: functions.detect.cold_start_ms: ...it must be at most ..."
    ),
    ("[cluster]", "[prices]\nvcpu_usd_per_hour = -0.1\n[cluster]"): (
        "catalog.toml: prices.vcpu_usd_per_hour: is -0.1; it must be at least 0"
    ),
}

KEYS_AND_TYPES: Mistakes = {
    ("nodes = 2", 'nodes = "many"'): "catalog.toml: cluster.nodes: is 'many'; ...a whole number",
    ("nodes = 2", "nodes = true"): "catalog.toml: cluster.nodes: is True; ...a whole number",
    ("nodes = 2", "nodes = 2.5"): "catalog.toml: cluster.nodes: is 2.5; ...a whole number",
    ("input_mb = 1.5", "input_mb = nan"): (
        "catalog.toml: functions.detect.input_mb: is nan; it must be a number"
    ),
    (CARS, 'function = "classify"\nafter = "detect"'): (
        "catalog.toml: applications.street.stages.cars.after: must be a list of names"
    ),
    ('profile = "detect.toml"', "profile = 3"): (
        "catalog.toml: functions.detect.profile: is 3; it must be a non-empty text"
    ),
    **{
        ("memory_mb = 500", f"memory_mb = 500\nhandler = {handler!r}"): (
            f"catalog.toml: functions.detect.handler: is {handler!r}; ...as 'module:Class' or ..."
        )
        for handler in ("vision", "vision:", ":Detect", "my vision:Detect", "a:b:c", "a..b:C")
    },
    ("[cluster]", "prices = 3\n[cluster]"): "catalog.toml: prices: ...a table; write [prices]",
    ("[cluster]\nnodes = 2\nvcpus = 16\nvgpus = 7\nslice_memory_mb = 10_000\n", ""): (
        'catalog.toml: cluster: is missing; add it, or make extends = "default" the first line'
    ),
    ("[cluster]", 'extend = "default"\n[cluster]'): (
        "catalog.toml: extend: unknown key 'extend'; did you mean 'extends'?"
    ),
    **{
        ("[cluster]", f"extends = {other}\n[cluster]"): (
            'catalog.toml: extends: must be "default" or "measured-shapes" or "cpu", which ...'
        )
        for other in ('"defaults"', '"../catalog.toml"', "3", "[]")
    },
    ("[cluster]", 'extends = "default"\nprices = 3\n[cluster]'): (
        "catalog.toml: prices: ...a table; write [prices]"
    ),
    ("[cluster]", 'extends = "default"\n[cluster]\nslices = 1'): (
        "catalog.toml: cluster.slices: unknown key 'slices'; ..."
    ),
    ("memory_mb = 500\n", ""): "catalog.toml: functions.detect.memory_mb: is missing; add it",
    (SLO, f"{SLO}\nslo_scal = 1.0"): (
        "catalog.toml: applications.street.slo_scal: ...; did you mean 'slo_scale'?"
    ),
    ("[cluster]", "[price]\n[cluster]"): "catalog.toml: price: ...; did you mean 'prices'?",
    ("[functions.classify]", "[functions.detect]"): (
        "catalog.toml: not valid TOML: ...detect... twice (at line ..., column ...)"
    ),
    ("nodes = 2", "nodes = "): "catalog.toml: not valid TOML: ... (at line 3, column 9)",
    ('profile = "detect.toml"', 'profile = "detect.toml"\ncpu = "across"'): (
        "catalog.toml: functions.detect.cpu: unknown use of vCPUs 'across'; did you mean ..."
    ),
    ('profile = "detect.toml"', 'profile = "detector.toml"'): (
        "catalog.toml: functions.detect.profile: no such file: ...detector.toml; write it or ..."
    ),
    ('profile = "detect.toml"', 'profile = "classify.toml"'): (
        "catalog.toml: functions.detect.profile: ...classify.toml ...'classify', not of 'detect'; "
        "name the right file"
    ),
}

MODELS: Mistakes = {
    ("base_ms = 100", "base_ms = 0"): (
        "detect.toml: model.base_ms: is 0; it must be greater than 0"
    ),
    ("base_ms = 100", "base_ms = 1e17"): (
        "detect.toml: model.base_ms: is 1e+17; it must be at most ..."
    ),
    ("cpu_share = 0.5", "cpu_share = 1.5"): (
        "detect.toml: model.cpu_share: is 1.5; it must be at most 1"
    ),
    ("batch = [1, 2]", "batch = [0, 1]"): "detect.toml: grid.batch: ...numbers from 1 to 10000",
    ("batch = [1, 2]", "batch = [2, 4]"): "detect.toml: ...no config with batch 1...; add one",
    ("vcpus = [1, 2]", "vcpus = [2, 2]"): "detect.toml: grid.vcpus: ...different numbers...",
    ("base_ms = 100", "base_ms = 100\nmax_portion = 0"): (
        "detect.toml: model.max_portion: is 0; it must be at least 1"
    ),
    ("base_ms = 100", 'base_ms = 100\ncpu = "within_jobs"'): (
        "detect.toml: model.cpu: unknown use of vCPUs 'within_jobs'; did you mean 'within_job'?"
    ),
    ("base_ms = 100", 'base_ms = 100\ncpu = "across_jobs"'): (
        "detect.toml: model.parallel_fraction: is about several vCPUs for one job; leave it out, "
        'or say cpu = "within_job"'
    ),
    ("parallel_fraction = 1.0", ""): "detect.toml: model.parallel_fraction: is missing; add it",
    (SHARE, ""): (
        "detect.toml: model.gpu_growth: ...either gpu_fixed_share or gpu_growth; give one of them"
    ),
    (SHARE, f"{SHARE}\ngpu_growth = {{ 1 = 1.0 }}"): (
        "detect.toml: model.gpu_growth: ...either gpu_fixed_share or gpu_growth; give one of them"
    ),
    (SHARE, "gpu_growth = 1.5"): "detect.toml: model.gpu_growth: must be a table; ...",
    (SHARE, "gpu_growth = {}"): "detect.toml: model.gpu_growth.1: must be 1.0: ...",
    (
        SHARE,
        "gpu_growth = { 1 = 1.1, 2 = 1.5 }",
    ): "detect.toml: model.gpu_growth.1: must be 1.0: ...",
    (SHARE, "gpu_growth = { 1 = 1.0, two = 1.5 }"): (
        "detect.toml: model.gpu_growth.two: a key here is a whole number from 1 to 10000"
    ),
    (SHARE, "gpu_growth = { 1 = 1.0, 02 = 1.5 }"): "detect.toml: model.gpu_growth.02: a key ...",
    (SHARE, 'gpu_growth = { 1 = 1.0, 2 = "x" }'): (
        "detect.toml: model.gpu_growth.2: is 'x'; it must be a number"
    ),
    (SHARE, "gpu_growth = { 1 = 1.0, 2 = 0.9 }"): (
        "detect.toml: model.gpu_growth.2: is 0.9, less than the 1 of 1; more jobs take no less time"
    ),
    (SHARE, "gpu_growth = { 1 = 1.0 }"): (
        "detect.toml: model.gpu_growth: ends at 1 jobs, and the grid has 2 on one slice; say what "
        "they take, or max_portion = 1"
    ),
    ("base_ms = 100", "base_ms = 100\nmax_potion = 2"): (
        "detect.toml: model.max_potion: ...; did you mean 'max_portion'?"
    ),
    ("[grid]", '[measured]\ntable = "classify.csv"\n[grid]'): (
        "detect.toml: model: ...either [model] or [measured]; keep one of them"
    ),
    ('[provenance]\nkind = "modelled"', ""): "detect.toml: provenance: is missing; add it",
}

REFERENCES: Mistakes = {
    ('table = "classify.csv"', 'table = "elsewhere.csv"'): (
        "classify.toml: measured.table: no such file: ...elsewhere.csv; write it or ..."
    ),
}

TABLES: Mistakes = {
    ("batch,vcpus,vgpus,time_ms", "batch,vcpus,time_ms"): (
        "classify.csv: missing column vgpus; the header is batch,vcpus,vgpus,time_ms"
    ),
    (TABLE, ""): "classify.csv: missing column batch...; the header is batch,vcpus,vgpus,time_ms",
    ("2,1,1,70.5", "2,1,1,fast"): (
        "classify.csv:4: ...'fast'; expected whole numbers and times in ms"
    ),
    ("2,1,1,70.5", "2.5,1,1,70.5"): "classify.csv:4: ...'2.5'; expected whole numbers ...",
    ("2,1,1,70.5", "2,1,70.5"): "classify.csv:4: 3 cells where the header has 4",
    ("2,1,1,70.5", "1,1,1,70.5"): ("classify.csv:4: config 1/1/1 appears twice; remove one row"),
    ("2,1,1,70.5", "2,1,1,-70.5"): "classify.csv:4: time_ms is -70.5; it must be positive ...",
    ("2,1,1,70.5", "2,1,1,nan"): "classify.csv:4: time_ms is nan; it must be positive ...",
    ("2,1,1,70.5", "2,1,1,1e17"): "classify.csv:4: time_ms is 1e+17; it must be ...",
    ("2,1,1,70.5", "2,1,1,9e7"): "classify.toml: profile of classify: a time of 90000 s; ...",
    ("2,1,1,70.5", "2,1,99999999999,9e5"): "classify.toml: ...a task costs more than ...",
    ("2,1,1,70.5", "2,1,0,70.5"): "classify.csv:4: ...vgpus must be at least 1",
    ("1,1,1,40\n", ""): "classify.toml: ...no config with batch 1...; add one",
    ("1,1,1,40", "1,1,1,oom"): "classify.toml: ...no config with batch 1...; add one",
}

PHASES = {
    "70.5,fast,10": "classify.csv:4: ...'fast'; expected whole numbers and times in ms",
    "70.5,50,late": "classify.csv:4: ...'late'; expected whole numbers and times in ms",
    "70.5,-50,10": "classify.csv:4: slices_ms is -50; it must not be negative (or empty)",
    "70.5,50,-10": "classify.csv:4: after_ms is -10; it must not be negative (or empty)",
    "70.5,nan,10": "classify.csv:4: slices_ms is nan; it must not be negative (or empty)",
    "70.5,,71": "classify.csv:4: ...parts of time_ms, but add up to 71, more than 70.5",
    "70.5,60.6,10": "classify.csv:4: ...parts of time_ms, but add up to 70.6, more than 70.5",
    "70.5,inf,10": "classify.csv:4: ...parts of time_ms, but add up to inf, more than 70.5",
    "70.5,50": "classify.csv:4: 5 cells where the header has 6",
}
TABLES |= {
    (TABLE, PHASED_TABLE.replace("70.5,50,10", cells)): message for cells, message in PHASES.items()
}

ROWS = [
    pytest.param(file, old, new, message, id=message)
    for file, mistakes in (
        ("catalog.toml", SHAPES | SLOS | RESOURCES | KEYS_AND_TYPES),
        ("detect.toml", MODELS),
        ("classify.toml", REFERENCES),
        ("classify.csv", TABLES),
    )
    for (old, new), message in mistakes.items()
]


def as_regex(message: str) -> str:
    return ".*".join(re.escape(words) for words in message.split("..."))


@pytest.mark.parametrize(("file", "old", "new", "message"), ROWS)
def test_a_mistake_is_refused_in_one_line_that_says_where_it_is_and_what_to_do(
    tmp_path: Path, file: str, old: str, new: str, message: str
) -> None:
    assert old in FILES[file]
    with pytest.raises(Rejected) as refused:
        load(tmp_path, FILES | {file: FILES[file].replace(old, new, 1)})
    told = str(refused.value)
    assert told.splitlines() == [told]
    assert re.fullmatch(as_regex(f"{tmp_path}/{message}"), told), told


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda path: None, "no such file"),
        (lambda path: path.mkdir(), "cannot be read"),
        (lambda path: path.write_bytes(b"\xff\xfe"), "cannot be read"),
    ],
    ids=["missing", "a folder", "not text"],
)
def test_a_file_that_cannot_be_read_is_refused(
    tmp_path: Path, make: Callable[[Path], object], says: str
) -> None:
    path = tmp_path / "lost.toml"
    make(path)
    for read in (load_catalog, lambda path: load_profile(path, Prices())):
        with pytest.raises(Rejected, match=says) as refused:
            read(path)
        assert str(refused.value).startswith(f"{path}: ")


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("catalog.toml", 'profile = "detect.toml"', f'profile = "{"x" * 5000}"'),
        (
            "catalog.toml",
            'profile = "detect.toml"',
            f'profile = "detect.toml"\nhandler = "{"x" * 5000}.py:Handler"',
        ),
        ("catalog.toml", STREET, f"[applications.{'x' * 5000}]"),
        ("classify.csv", "1,1,1,40", f"1,1,1,{'x' * 5000}"),
    ],
    ids=["a profile", "a handler", "an application", "a time"],
)
def test_refusal_is_short_however_long_the_mistake_is(
    tmp_path: Path, file: str, old: str, new: str
) -> None:
    assert old in FILES[file]
    with pytest.raises(Rejected) as refused:
        load(tmp_path, FILES | {file: FILES[file].replace(old, new, 1)})
    assert len(str(refused.value)) < 2000
