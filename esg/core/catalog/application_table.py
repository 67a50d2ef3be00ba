"""Applications as TOML tables, `[applications.NAME]`: in a catalog, or in a file of their own.

[applications.portrait]
chain = ["deblur", "depth"]       # or [applications.portrait.stages.NAME] function, after
slo_ms = 900                      # or slo_scale, a multiple of its time alone; 1 by default
late_requests = "finish"          # or "drop"
"""

from collections.abc import Collection
from dataclasses import dataclass

from esg.core.catalog.late_requests import LateRequests
from esg.core.catalog.toml_fields import TomlFields
from esg.limits import LONGEST_PART_MS
from esg.suggest import did_you_mean


@dataclass(frozen=True, slots=True)
class StageTable:
    """A stage: the name of its function, and of those before it."""

    name: str
    function: str
    after: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplicationTable:
    """What a table says: names, whose functions may be in a catalog or in a mesh."""

    name: str
    stages: tuple[StageTable, ...]
    slo_ms: float | None
    slo_scale: float | None
    late_requests: LateRequests


def application_table(
    name: str, fields: TomlFields, functions: Collection[str] | None = None
) -> ApplicationTable:
    """Read and check one table. Functions that are not among these are refused, if any are."""
    if fields.has("chain") == fields.has("stages"):
        raise fields.error("chain", "an application has either chain or stages; give one of them")
    if fields.has("chain"):
        stages = _chain(fields, functions)
    else:
        stages = tuple(_stage(stage, own, functions) for stage, own in fields.tables("stages"))
    if fields.has("slo_ms") and fields.has("slo_scale"):
        raise fields.error("slo_ms", "give either slo_ms or slo_scale, not both")
    slo_ms = (
        fields.number("slo_ms", above=0, maximum=LONGEST_PART_MS) if fields.has("slo_ms") else None
    )
    slo_scale = fields.number("slo_scale", above=0) if fields.has("slo_scale") else None
    late_requests = _late_requests(fields)
    fields.finish()
    return ApplicationTable(
        name=name, stages=stages, slo_ms=slo_ms, slo_scale=slo_scale, late_requests=late_requests
    )


def _late_requests(fields: TomlFields) -> LateRequests:
    said = fields.text("late_requests", default=LateRequests.FINISH)
    known = [way.value for way in LateRequests]
    if said not in known:
        raise fields.error("late_requests", did_you_mean("way", said, known))
    return LateRequests(said)


def _chain(fields: TomlFields, functions: Collection[str] | None) -> tuple[StageTable, ...]:
    names = fields.names("chain")
    for name in names:
        if functions is not None and name not in functions:
            raise fields.error("chain", did_you_mean("function", name, functions))
    return tuple(StageTable(name, name, tuple(names[i - 1 : i])) for i, name in enumerate(names))


def _stage(name: str, fields: TomlFields, functions: Collection[str] | None) -> StageTable:
    function = fields.text("function", default=name)
    if functions is not None and function not in functions:
        raise fields.error("function", did_you_mean("function", function, functions))
    stage = StageTable(name, function, tuple(fields.names("after", default=())))
    fields.finish()
    return stage
