"""A profile's model as tables of its file, read and checked.

[grid]
batch = [1, 2, 4]
vcpus = [1, 2]
vgpus = [1]

[model]
base_ms = 40
cpu_share = 0.6
cpu = "within_job"                        # or "across_jobs", without parallel_fraction
parallel_fraction = 0.9
gpu_growth = { 1 = 1.0, 2 = 1.4, 4 = 2.3 }  # or gpu_fixed_share
max_portion = 4                           # optional
relative_std = 0.02                       # optional

[model.kinds."3g.40gb"]                   # on slices of another kind
vgpus = [1, 2]                            # how many a task may have; 1 if nothing is said
gpu_growth = { 1 = 0.4, 2 = 0.5, 4 = 0.8 }  # in times of one job on a usual slice; or speedup = 3.0
max_portion = 4                           # optional
"""

from collections.abc import Sequence
from itertools import pairwise
from math import ceil

from esg.core.catalog.cpu_use import CpuUse
from esg.core.catalog.profile_model import Grid, KindModel, TimeModel
from esg.core.catalog.toml_fields import MAX_CHOICE, TomlFields
from esg.limits import LONGEST_PART_MS
from esg.suggest import did_you_mean


def model_table(fields: TomlFields, grid: Grid) -> tuple[TimeModel, float]:
    """The model, and how much a run's time varies."""
    cpu = cpu_use(fields, CpuUse.WITHIN_JOB)
    if fields.has("gpu_fixed_share") == fields.has("gpu_growth"):
        raise fields.error(
            "gpu_growth", "a model has either gpu_fixed_share or gpu_growth; give one of them"
        )
    tabled = fields.has("gpu_growth")
    model = TimeModel(
        base_ms=fields.number("base_ms", above=0, maximum=LONGEST_PART_MS),
        cpu_share=fields.number("cpu_share", minimum=0, maximum=1),
        cpu=cpu,
        parallel_fraction=_parallel_fraction(fields, cpu),
        max_portion=fields.integer("max_portion", minimum=1) if fields.has("max_portion") else None,
        gpu_fixed_share=(0.0 if tabled else fields.number("gpu_fixed_share", minimum=0, maximum=1)),
        gpu_growth=_growth(fields.table("gpu_growth"), first=1.0) if tabled else (),
        kinds=_kinds(fields.table("kinds", required=False), grid),
    )
    if model.gpu_growth:
        _check_reach(fields, model.gpu_growth, model.max_portion, grid.batch, grid.vgpus)
    spread = fields.number("relative_std", minimum=0, default=0.0)
    fields.finish()
    return model, spread


def _kinds(fields: TomlFields, grid: Grid) -> dict[str, KindModel]:
    return {name: _kind(fields.table(name), grid) for name in fields.names_in()}


def _kind(fields: TomlFields, grid: Grid) -> KindModel:
    if fields.has("speedup") == fields.has("gpu_growth"):
        raise fields.error("speedup", "give either speedup or gpu_growth, one of them")
    tabled = fields.has("gpu_growth")
    kind = KindModel(
        vgpus=fields.integers("vgpus") if fields.has("vgpus") else (1,),
        gpu_growth=_growth(fields.table("gpu_growth"), first=None) if tabled else (),
        speedup=1.0 if tabled else fields.number("speedup", above=0, maximum=MAX_CHOICE),
        max_portion=fields.integer("max_portion", minimum=1) if fields.has("max_portion") else None,
    )
    if tabled:
        _check_reach(fields, kind.gpu_growth, kind.max_portion, grid.batch, kind.vgpus)
    fields.finish()
    return kind


def grid_table(fields: TomlFields) -> Grid:
    grid = Grid(
        batch=fields.integers("batch"),
        vcpus=fields.integers("vcpus"),
        vgpus=fields.integers("vgpus"),
    )
    fields.finish()
    return grid


def cpu_use(fields: TomlFields, usual: CpuUse) -> CpuUse:
    """What is said of vCPUs, here or in a function's manifest."""
    said = fields.text("cpu", default=usual)
    known = [use.value for use in CpuUse]
    if said not in known:
        raise fields.error("cpu", did_you_mean("use of vCPUs", said, known))
    return CpuUse(said)


def _parallel_fraction(fields: TomlFields, cpu: CpuUse) -> float:
    if cpu is CpuUse.WITHIN_JOB:
        return fields.number("parallel_fraction", minimum=0, maximum=1)
    if fields.has("parallel_fraction"):
        raise fields.error(
            "parallel_fraction",
            f'is about several vCPUs for one job; leave it out, or say cpu = "{CpuUse.WITHIN_JOB}"',
        )
    return 0.0


def _growth(fields: TomlFields, *, first: float | None) -> tuple[tuple[int, float], ...]:
    """Times by portion, in rising order, relative to that of a single job on a usual slice."""
    portions = fields.whole_numbers()
    growth = tuple((n, fields.number(str(n), above=0, maximum=MAX_CHOICE)) for n in portions)
    if first is not None and (not growth or growth[0] != (1, first)):
        raise fields.error("1", "must be 1.0: the others are multiples of a single job's time")
    if not growth or growth[0][0] != 1:
        raise fields.error("1", "is missing: say what a single job takes")
    for (fewer, less), (more, greater) in pairwise(growth):
        if greater < less:
            raise fields.error(
                str(more),
                f"is {greater:g}, less than the {less:g} of {fewer}; more jobs take no less time",
            )
    return growth


def _check_reach(
    fields: TomlFields,
    growth: Sequence[tuple[int, float]],
    max_portion: int | None,
    batch: Sequence[int],
    vgpus: Sequence[int],
) -> None:
    largest = ceil(max(batch) / min(vgpus))
    if max_portion is not None:
        largest = min(largest, max_portion)
    known = growth[-1][0]
    if known < largest:
        raise fields.error(
            "gpu_growth",
            f"ends at {known} jobs, and the grid has {largest} on one slice; say what they take, "
            f"or max_portion = {known}",
        )
