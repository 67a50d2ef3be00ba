"""Results that a user saved as JSON (`esg emulate --json`, `loadgen --json`), in one form."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from esg.errors import Rejected

EVERYTHING = "all"
"""The part of a run that is all of its applications."""

Facts = dict[str, str]


class Latency(msgspec.Struct, frozen=True):
    p50: float | None = None
    p90: float | None = None
    p99: float | None = None


class _Latencies(Latency, frozen=True):
    by_application: dict[str, Latency] = {}


class _Run(msgspec.Struct, frozen=True, kw_only=True):
    requests: float
    slo_hit_rate: float | None
    cost_usd_per_1k_requests: float | None
    latency_ms: _Latencies
    seed: int = 0


class _Emulated(_Run, frozen=True, kw_only=True):
    policy: str
    hit_rate_by_application: dict[str, float | None]
    cost_usd_per_1k_by_application: dict[str, float | None]
    runs: list[_Run] = []


class _Provenance(msgspec.Struct, frozen=True, kw_only=True):
    ended: str = ""
    command: str = ""
    version: str = ""


class _OfEmulate(_Provenance, frozen=True, kw_only=True):
    results: list[_Emulated]
    setting: dict[str, Any]
    seeds: list[int]


class _Node(msgspec.Struct, frozen=True):
    vcpus: int
    vgpus: int


class _OfLoadgen(_Provenance, frozen=True, kw_only=True):
    requests: float
    slo_hit_rate: float | None
    cost_usd_per_1k_requests: float | None
    latency_ms: Latency
    applications: dict[str, _Run]
    policy: str
    nodes: list[_Node] = []
    slo_ms: dict[str, float] = {}
    gateway: str = ""
    plan: dict[str, Any] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedFigures:
    """The figures of a run, or of one application in it."""

    hit_rate: float | None
    cost_usd_per_1k: float | None
    latency_ms: Latency


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedRun:
    """A run of one policy, or the mean of several: its figures by application, and in all; and in
    all by seed, if there were several."""

    policy: str
    parts: Mapping[str, SavedFigures]
    by_seed: Mapping[int, SavedFigures]


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedResult:
    """What a file has: a run for each policy, and what tells it from another file."""

    file: Path
    runs: Mapping[str, SavedRun]
    facts: Facts


def read_result(file: Path) -> SavedResult:
    """Read a file that `esg emulate --json` or `loadgen --json` wrote; anything else is refused."""
    try:
        content = file.read_bytes()
    except OSError as error:
        raise Rejected(f"{file}: cannot be read: {error.strerror}") from None
    try:
        found: Any = msgspec.json.decode(content)
        if isinstance(found, dict) and "results" in found:
            return _of_emulate(file, msgspec.convert(found, _OfEmulate))
        return _of_loadgen(file, msgspec.convert(found, _OfLoadgen))
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise Rejected(
            f"{file}: no results of esg emulate --json or loadgen --json ({error})"
        ) from None


def _of_emulate(file: Path, found: _OfEmulate) -> SavedResult:
    if not found.results:
        raise Rejected(f"{file}: there is no result in it; name another file")
    setting = found.setting
    slo_scale = setting.get("slo_scale")
    nodes, vcpus, vgpus = (setting.get(key, "?") for key in ("nodes", "vcpus", "vgpus"))
    return SavedResult(
        file=file,
        runs={one.policy: _emulated_run(one) for one in found.results},
        facts={
            **_provenance(found),
            "Where": "emulated",
            "Policy": ", ".join(one.policy for one in found.results),
            "Nodes": f"{nodes} nodes, each with {vcpus} vCPUs and {vgpus} vGPUs",
            "SLOs": "the applications' own" if slo_scale is None else f"{slo_scale} L",
            "Requests": _load_text(setting, found.results[0].requests),
            "Seeds": ", ".join(map(str, found.seeds)),
        },
    )


def _emulated_run(found: _Emulated) -> SavedRun:
    parts = {
        name: SavedFigures(
            hit_rate=rate,
            cost_usd_per_1k=found.cost_usd_per_1k_by_application.get(name),
            latency_ms=found.latency_ms.by_application.get(name, Latency()),
        )
        for name, rate in sorted(found.hit_rate_by_application.items())
    }
    return SavedRun(
        policy=found.policy,
        parts={EVERYTHING: _figures(found), **parts},
        by_seed={run.seed: _figures(run) for run in found.runs},
    )


def _of_loadgen(file: Path, found: _OfLoadgen) -> SavedResult:
    parts = {name: _figures(one) for name, one in sorted(found.applications.items())}
    run = SavedRun(policy=found.policy, parts={EVERYTHING: _figures(found), **parts}, by_seed={})
    sizes = sorted({(node.vcpus, node.vgpus) for node in found.nodes})
    each = " or ".join(f"{vcpus} vCPUs and {vgpus} vGPUs" for vcpus, vgpus in sizes)
    slos = ", ".join(f"{name} {slo_ms:g} ms" for name, slo_ms in sorted(found.slo_ms.items()))
    return SavedResult(
        file=file,
        runs={found.policy: run},
        facts={
            **_provenance(found),
            "Where": f"live, gateway {found.gateway}",
            "Policy": found.policy,
            "Nodes": f"{len(found.nodes)} nodes, each with {each}" if sizes else "none",
            "SLOs": slos,
            "Requests": _load_text(found.plan, found.requests),
        },
    )


def _figures(found: _Run | _OfLoadgen) -> SavedFigures:
    return SavedFigures(
        hit_rate=found.slo_hit_rate,
        cost_usd_per_1k=found.cost_usd_per_1k_requests,
        latency_ms=found.latency_ms,
    )


def _provenance(found: _Provenance) -> Facts:
    return {"Ended": found.ended, "Command": found.command, "Version": found.version}


def _load_text(load: Mapping[str, Any], requests: float) -> str:
    file = load.get("trace") or load.get("arrivals")
    as_in = f" as in {file}" if file else ""
    rate = f" at the rate {load['rate']}" if load.get("rate") else ""
    return f"{requests:g}{as_in}{rate}"
