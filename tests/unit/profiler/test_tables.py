"""Profiles and catalogs as they are written: the rest of ESG reads them as they are."""

import os
from pathlib import Path

import pytest

from esg.core.catalog.config import Config
from esg.core.catalog.cpu_use import CpuUse
from esg.core.catalog.file import load_catalog
from esg.core.catalog.phases import Phases
from esg.errors import Rejected
from esg.profiler.record import FORMAT, Cell, FunctionRecord, ProfileRecord, begun, read
from esg.profiler.tables import MeasuredNode, write_catalog, write_profile
from esg.units import ms
from tests.support.integration_catalog import write_catalog as write_source

NODE = MeasuredNode(vcpus=2, kinds=("", ""), memories_mb=(800, 900))
PROVENANCE = {"kind": "measured", "device": 'a "quoted" one\\', "date": "2026-11-16"}


def cell(batch: int, time_ms: float, vgpus: int = 1) -> Cell:
    return Cell(Config(batch, 1, vgpus), [Phases(0, ms(time_ms), 0)] * 3)


def measured(*cells: Cell) -> FunctionRecord:
    return FunctionRecord(
        input_bytes=123_456,
        cold_starts_us=[ms(70), ms(90), ms(80)],
        memory_mb=55,
        cells=list(cells),
    )


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "source"
    folder.mkdir()
    return write_source(folder)


def written(folder: Path, source: Path, **functions: FunctionRecord) -> list[str]:
    record = ProfileRecord({}, functions)
    for name, function in functions.items():
        write_profile(folder, name, function, PROVENANCE)
    return write_catalog(folder, source, load_catalog(source), record, NODE)


def test_measured_profiles_are_read_back(tmp_path: Path, source: Path) -> None:
    three = {n: measured(cell(1, 7), cell(2, 9.5)) for n in ("resize", "detect", "label")}
    left_out = written(tmp_path, source, **three)
    assert left_out == ["tags", "night", "scene"]
    catalog = load_catalog(tmp_path / "catalog.toml")
    assert list(catalog.applications) == ["photo"]
    assert catalog.applications["photo"].slo_us == ms(20_000)
    function = catalog.functions["detect"]
    assert function.profile.time_us.tolist() == [ms(7), ms(9.5)]
    assert (function.cold_start_us, function.input_bytes) == (ms(80), 123_456)
    assert function.memory_mb == 55
    assert 'a "quoted" one\\' in function.profile.provenance
    assert (catalog.cluster.vcpus, catalog.slice_memory_mb) == (2, 800)


def test_a_config_that_cannot_run_is_left_out_and_said_why(tmp_path: Path, source: Path) -> None:
    full = measured(
        cell(1, 7),
        Cell(Config(2, 1, 1), failure="CUDA error: out of memory, 3 MB wanted"),
        Cell(Config(4, 1, 1), failure="it\nbroke"),
    )
    written(tmp_path, source, resize=full, detect=full, label=full)
    assert load_catalog(tmp_path / "catalog.toml").functions["detect"].profile.max_batch == 1
    lines = (tmp_path / "detect.csv").read_text().splitlines()
    assert lines[2:] == [
        ',2,1,1,oom,,,0,"CUDA error: out of memory, 3 MB wanted"',
        ",4,1,1,,,,0,it broke",
    ]


def test_the_phases_of_measured_profiles_are_read_back(tmp_path: Path, source: Path) -> None:
    """To the microsecond, also where there is nothing before the slices."""
    alone, both = Config(1, 1, 1), Config(2, 2, 1)
    full = measured(
        Cell(alone, [Phases(0, 100, 203), Phases(1, 100, 200), Phases(0, 104, 200)]),
        Cell(both, [Phases(ms(3), ms(10), ms(4))] * 3, [ms(15.5), ms(15), ms(15.1)]),
    )
    written(tmp_path, source, resize=full, detect=full, label=full)
    assert (tmp_path / "detect.csv").read_text() == (
        "kind,batch,vcpus,vgpus,time_ms,slices_ms,after_ms,runs,note\n"
        ",1,1,1,0.303,0.100,0.200,3,\n"
        ",2,2,1,15.100,10.000,2.100,3,\n"
    )
    profile = load_catalog(tmp_path / "catalog.toml").functions["detect"].profile
    assert [profile.phases_of(config) for config in (alone, both)] == [
        full.cells[0].phases,
        full.cells[1].phases,
    ]


def test_applications_with_branches_are_taken_over(tmp_path: Path, source: Path) -> None:
    names = ("resize", "detect", "depth", "label")
    assert written(tmp_path, source, **{n: measured(cell(1, 7)) for n in names}) == [
        "tags",
        "night",
    ]
    scene = load_catalog(tmp_path / "catalog.toml").applications["scene"]
    assert scene.stages["label"].after == ("detect", "depth")


def test_memory_that_was_not_measured_is_as_it_was(tmp_path: Path, source: Path) -> None:
    one = FunctionRecord(input_bytes=1, cold_starts_us=[1], cells=[cell(1, 7)])
    written(tmp_path, source, resize=one, detect=one, label=one)
    assert load_catalog(tmp_path / "catalog.toml").functions["detect"].memory_mb == 100


def test_a_folder_is_found_from_where_the_catalog_is(tmp_path: Path, source: Path) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "function.toml").write_text('description = "it resizes"\n')
    text = source.read_text().replace(
        "[functions.resize]\n",
        f'[functions.resize]\nfolder = "{os.path.relpath(folder, source.parent)}"\n',
    )
    source.write_text(text)
    written(tmp_path, source, **{n: measured(cell(1, 7)) for n in ("resize", "detect", "label")})
    found = load_catalog(tmp_path / "catalog.toml").functions["resize"].folder
    assert Path(found) == folder


def test_the_file_of_a_handler_is_found_from_where_the_catalog_is(
    tmp_path: Path, source: Path
) -> None:
    (source.parent / "parts.py").write_text("class Resize: ...")
    text = source.read_text()
    table = "[functions.resize]\n"
    assert table in text
    source.write_text(
        text.replace(table, f'{table}handler = "parts.py:Resize"\ncpu = "within_job"\n')
    )
    three = {n: measured(cell(1, 7)) for n in ("resize", "detect", "label")}
    written(tmp_path, source, **three)
    catalog = load_catalog(tmp_path / "catalog.toml")
    assert catalog.functions["resize"].handler == f"{source.parent / 'parts.py'}:Resize"
    assert catalog.functions["resize"].cpu is CpuUse.WITHIN_JOB


def test_a_catalog_that_extends_the_shipped_one_is_measured_whole(tmp_path: Path) -> None:
    source = tmp_path / "source" / "mine.toml"
    source.parent.mkdir()
    source.write_text('extends = "default"\n[applications.one]\nchain = ["depth"]\nslo_ms = 900\n')
    out = tmp_path / "out"
    out.mkdir()
    written(out, source, depth=measured(cell(1, 7)))
    catalog = load_catalog(out / "catalog.toml")
    assert (list(catalog.functions), list(catalog.applications)) == (["depth"], ["one"])
    assert catalog.functions["depth"].folder == load_catalog().functions["depth"].folder
    assert catalog.cluster.vcpus == NODE.vcpus


def test_catalog_is_not_written_without_a_whole_application(tmp_path: Path, source: Path) -> None:
    assert written(tmp_path, source, resize=measured(cell(1, 7))) == [
        "photo",
        "tags",
        "night",
        "scene",
    ]
    assert not (tmp_path / "catalog.toml").exists()


# Kinds of slices

MIXED = MeasuredNode(vcpus=2, kinds=("cpu-1", "cpu-2"), memories_mb=(800, 900))


def on(kind: str, time_ms: float) -> Cell:
    return Cell(Config(1, 1, 1, kind), [Phases(0, ms(time_ms), 0)] * 3)


def named(source: Path, kind: str) -> Path:
    text = source.read_text().replace("[cluster]\n", f'[cluster]\nkind = "{kind}"\n')
    source.write_text(text)
    return source


def test_every_kind_is_measured_for_itself(tmp_path: Path, source: Path) -> None:
    """The usual one is that of the first slice, if the first catalog's is not there."""
    catalog = load_catalog(named(source, "1g.10gb"))
    one = measured(on("cpu-1", 9), on("cpu-2", 5))
    record = ProfileRecord({}, {"resize": one, "detect": one, "label": measured(on("cpu-1", 7))})
    for name, function in record.functions.items():
        write_profile(tmp_path, name, function, PROVENANCE, MIXED.usual(catalog))
    write_catalog(tmp_path, source, catalog, record, MIXED)
    assert (tmp_path / "detect.csv").read_text().splitlines()[1:] == [
        "cpu-1,1,1,1,9.000,9.000,0.000,3,",
        "cpu-2,1,1,1,5.000,5.000,0.000,3,",
    ]
    found = load_catalog(tmp_path / "catalog.toml")
    assert {kind: (one.name, one.memory_mb) for kind, one in found.kinds.items()} == {
        "": ("cpu-1", 800),
        "cpu-2": ("cpu-2", 900),
    }
    assert [one.usd_per_hour for one in found.kinds.values()] == [0.034, 0.068]
    assert next(found.cluster.each()).slices == ("", "cpu-2")
    assert found.functions["detect"].profile.configs == (Config(1, 1, 1), Config(1, 1, 1, "cpu-2"))
    assert found.functions["label"].profile.kinds == ("",)


def test_the_usual_kind_of_the_first_catalog_stays_that(tmp_path: Path, source: Path) -> None:
    catalog = load_catalog(named(source, "1g.10gb"))
    node = MeasuredNode(vcpus=2, kinds=("gpu-L4", ""), memories_mb=(24_000, 9728))
    one = measured(on("gpu-L4", 3), on("", 5))
    record = ProfileRecord({}, dict.fromkeys(("resize", "detect", "label"), one))
    for name, function in record.functions.items():
        write_profile(tmp_path, name, function, PROVENANCE, node.usual(catalog))
    write_catalog(tmp_path, source, catalog, record, node)
    found = load_catalog(tmp_path / "catalog.toml")
    assert {kind: one.name for kind, one in found.kinds.items()} == {
        "": "1g.10gb",
        "gpu-L4": "gpu-L4",
    }
    assert found.prices.vgpu_usd_per_hour == catalog.prices.vgpu_usd_per_hour
    assert found.functions["detect"].profile.time_us_of(Config(1, 1, 1)) == ms(5)


def test_a_kind_on_which_no_single_job_runs_is_left_out(tmp_path: Path, source: Path) -> None:
    catalog = load_catalog(named(source, "cpu-1"))
    node = MeasuredNode(vcpus=2, kinds=("", "cpu-2"), memories_mb=(800, 900))
    alone = Cell(Config(1, 1, 1, "cpu-2"), failure="it broke")
    pair = Cell(Config(2, 1, 1, "cpu-2"), [Phases(0, 9, 0)])
    record = ProfileRecord(
        {}, dict.fromkeys(("resize", "detect", "label"), measured(on("", 5), alone, pair))
    )
    for name, function in record.functions.items():
        write_profile(tmp_path, name, function, PROVENANCE, "cpu-1")
    write_catalog(tmp_path, source, catalog, record, node)
    found = load_catalog(tmp_path / "catalog.toml")
    assert found.functions["detect"].profile.configs == (Config(1, 1, 1),)
    assert "no single job runs there" in (tmp_path / "detect.csv").read_text()


# The record.


def test_a_record_goes_on_where_it_ended(tmp_path: Path) -> None:
    record = begun(tmp_path, {"slices": "cpu:2"}, restart=False)
    record.of("detect").cells.append(cell(1, 7))
    record.write(tmp_path)
    assert begun(tmp_path, {"slices": "cpu:2"}, restart=False) == record
    assert begun(tmp_path, {"slices": "cpu:2"}, restart=True).functions == {}


def test_a_record_of_another_machine_is_not_gone_on_with(tmp_path: Path) -> None:
    ProfileRecord({"slices": "cpu:2"}).write(tmp_path)
    with pytest.raises(Rejected, match=r"measured with slices 'cpu:2', not 'mig'.*--restart"):
        begun(tmp_path, {"slices": "mig"}, restart=False)


@pytest.mark.parametrize(
    "text", ["", "[]", '{"format": 1}', f'{{"format": {FORMAT}, "functions": 3}}']
)
def test_a_record_that_is_none_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "measured.json").write_text(text)
    with pytest.raises(Rejected, match="--restart"):
        read(tmp_path)
