"""The catalog as values: functions, applications as DAGs of them, and the cluster.

All values here are immutable and were checked on the way in: an `Application` that exists is
acyclic, has one root, and knows its shape. Files are read by `catalog.file`.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from graphlib import CycleError, TopologicalSorter

from esg.core.catalog.cluster import Cluster
from esg.core.catalog.cpu_use import CpuUse
from esg.core.catalog.dag import Series, reduced
from esg.core.catalog.late_requests import LateRequests
from esg.core.catalog.phases import TaskMode
from esg.core.catalog.ports import (
    PLAIN_INPUT,
    PLAIN_OUTPUT,
    Port,
    Ports,
    check_edges,
    outputs_by_name,
)
from esg.core.catalog.profile import Prices, Profile
from esg.core.catalog.slice_kinds import USUAL, SliceKind
from esg.errors import Rejected
from esg.limits import LONGEST_US
from esg.names import complaint
from esg.suggest import did_you_mean
from esg.units import to_ms


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Function:
    """One DNN stage: a CPU part and a model, with its profile.

    Cold start is the time to load the model on a slice, reloading it that on a node which has had
    it before and has its files in memory; `memory_mb` is what it takes on the slice. `handler`
    names the code of the CPU part, as "module:Class" or "path/of/file.py:Class"; without one the
    input goes to the model as it is. `cpu` is how that code uses several vCPUs, and `folder` has
    the models for real slices. All three matter to live invokers only, and to no decision; inputs
    and outputs to those who call, and to what can be an application.
    """

    name: str
    profile: Profile
    cold_start_us: int
    input_bytes: int
    memory_mb: int
    model: str = ""
    handler: str = ""
    cpu: CpuUse = CpuUse.ACROSS_JOBS
    folder: str = ""
    reload_us: int | None = None  # None: as long as a cold start
    inputs: Ports = PLAIN_INPUT
    outputs: Ports = PLAIN_OUTPUT

    def load_us(self, *, again: bool) -> int:
        """How long the model takes to load, on a node that has had it before or has not."""
        return self.cold_start_us if not again or self.reload_us is None else self.reload_us

    @property
    def handled_otherwise(self) -> bool:
        """Whether the handler uses vCPUs otherwise than the profile's model has it: on real slices
        tasks then do not take what is planned."""
        return bool(self.handler) and self.profile.cpu not in (None, self.cpu)

    @property
    def fastest_handled_us(self) -> int:
        """The shortest time of a single job as its handler does it. With one core for each job,
        further vCPUs are no use to one: it takes what the profile says of one vCPU."""
        if not (self.handled_otherwise and self.cpu is CpuUse.ACROSS_JOBS):
            return self.profile.fastest_us
        fewest, time_us_of = self.profile.minimum.vcpus, self.profile.time_us_of
        return min(time_us_of(c) for c in self.profile.configs if c.vcpus == fewest)


@dataclass(frozen=True, slots=True, eq=False)
class Stage:
    """A function's place in one application; one AFW queue belongs to it."""

    name: str
    function: Function
    after: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Application:
    """A DAG of functions with an end-to-end SLO. Stages are in topological order, root first."""

    name: str
    stages: dict[str, Stage]
    slo_us: int
    series: Series
    successors: Mapping[str, tuple[str, ...]] = field(repr=False)
    onward: Mapping[str, frozenset[str]] = field(repr=False)
    """Of each stage: itself, and all that wait for it, directly or not."""
    late_requests: LateRequests = LateRequests.FINISH

    @staticmethod
    def of(
        name: str,
        stages: Iterable[Stage],
        *,
        slo_us: int | None = None,
        slo_scale: float = 1.0,
        late_requests: LateRequests = LateRequests.FINISH,
    ) -> "Application":
        """Check a DAG and bring it into order. The SLO is given, or a multiple of `alone_us`."""
        given: dict[str, Stage] = {}
        _check_name("application", name)
        for stage in stages:
            _check_name("stage", stage.name)
            if stage.name in given:
                raise Rejected(
                    f"stage {stage.name!r} appears twice; give each stage a name of its own"
                )
            given[stage.name] = stage
        ordered = _ordered(given)
        for stage in ordered.values():
            if stage.after:
                given_by = {name: ordered[name].function.outputs for name in stage.after}
                check_edges(stage.name, stage.function.inputs, given_by)
        if slo_us is None:
            slo_us = _multiple_of(_alone_us(ordered), slo_scale)
        if slo_us <= 0:
            raise Rejected(f"the SLO is {slo_us} us; it must be positive")
        if slo_us > LONGEST_US:
            raise Rejected(f"the SLO is {slo_us} us, longer than years; give a shorter one")
        followers: dict[str, list[str]] = {stage: [] for stage in ordered}
        for stage in ordered.values():
            for before in stage.after:
                followers[before].append(stage.name)
        return Application(
            name=name,
            stages=ordered,
            slo_us=slo_us,
            series=reduced({stage.name: stage.after for stage in ordered.values()}),
            successors={stage: tuple(found) for stage, found in followers.items()},
            onward=_onward(followers),
            late_requests=late_requests,
        )

    def with_functions(self, changed: Callable[[Function], Function]) -> "Application":
        """This application with other functions, whichever version it is."""
        made = {function: changed(function) for function in self.functions()}
        stages = {
            name: replace(stage, function=made[stage.function])
            for name, stage in self.stages.items()
        }
        return replace(self, stages=stages)

    def with_profiles(self, changed: Callable[[Profile], Profile]) -> "Application":
        """This application with other profiles for its functions."""
        return self.with_functions(lambda f: replace(f, profile=changed(f.profile)))

    @property
    def root(self) -> str:
        return next(iter(self.stages))

    @property
    def inputs(self) -> Ports:
        """What a request brings: the inputs of its first stage."""
        return self.stages[self.root].function.inputs

    @property
    def outputs(self) -> dict[str, tuple[str, Port]]:
        """What a request gets, by name: outputs of its last stages, and whose they are."""
        last = [stage for stage in self.stages.values() if not self.successors[stage.name]]
        return outputs_by_name({stage.name: stage.function.outputs for stage in last})

    @property
    def alone_us(self) -> int:
        """The paper's L: the time of the whole DAG, run alone at the minimum config."""
        return _alone_us(self.stages)

    def fastest_us(
        self, of: Callable[[Function], int] = lambda function: function.profile.fastest_us
    ) -> dict[str, int]:
        """From each stage on, the time to the end with every stage at its fastest config."""
        times_us: dict[str, int] = {}
        for name, stage in reversed(self.stages.items()):
            after_us = max((times_us[s] for s in self.successors[name]), default=0)
            times_us[name] = of(stage.function) + after_us
        return times_us

    def functions(self) -> list[Function]:
        """Each once, in the order of the stages."""
        return list(dict.fromkeys(stage.function for stage in self.stages.values()))


def _onward(followers: dict[str, list[str]]) -> dict[str, frozenset[str]]:
    """The stages are in topological order."""
    found: dict[str, frozenset[str]] = {}
    for stage, after in reversed(followers.items()):
        found[stage] = frozenset({stage}).union(*(found[follower] for follower in after))
    return found


def _alone_us(stages: Mapping[str, Stage]) -> int:
    """The longest path through the DAG at the minimum config."""
    ends: dict[str, int] = {}
    for stage in stages.values():
        start = max((ends[before] for before in stage.after), default=0)
        ends[stage.name] = start + stage.function.profile.alone_us
    return max(ends.values())


def _multiple_of(alone_us: int, scale: float) -> int:
    """An SLO that is given as a multiple of L. What is rounded is within limits first: a product of
    finite numbers may be infinite."""
    product_us = scale * alone_us
    if not product_us <= LONGEST_US:
        raise Rejected(f"an SLO of {scale:g} times L is longer than years; give a smaller multiple")
    return round(product_us)


def _check_name(kind: str, name: str) -> None:
    if (why := complaint(kind, name)) is not None:
        raise Rejected(why)


def _ordered(given: Mapping[str, Stage]) -> dict[str, Stage]:
    """The stages in topological order, or the reason why there is none."""
    if not given:
        raise Rejected("no stages; name at least one")
    for stage in given.values():
        for before in stage.after:
            if stage.after.count(before) > 1:
                raise Rejected(f"stage {stage.name!r} comes after {before!r} twice; say it once")
            if before not in given:
                known = did_you_mean("stage", before, given)
                raise Rejected(f"stage {stage.name!r} comes after {before!r}: {known}")
    try:
        order = TopologicalSorter({s.name: s.after for s in given.values()}).static_order()
        ordered = {name: given[name] for name in order}
    except CycleError as error:
        # graphlib tells the cycle from each stage to one it waits for; people read it forwards
        cycle = " -> ".join(reversed(error.args[1]))
        raise Rejected(f"the stages form a cycle ({cycle}); remove one of its edges") from None
    roots = [stage.name for stage in ordered.values() if not stage.after]
    if len(roots) > 1:
        raise Rejected(
            f"{len(roots)} roots ({', '.join(sorted(roots))}); one is required: "
            "put a single stage first and let the others come after it"
        )
    return ordered


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Catalog:
    """Functions, applications and the cluster. `kinds` has all kinds of slices that are known, the
    usual one among them: its name is empty if all slices are alike, whatever they are."""

    functions: Mapping[str, Function]
    applications: Mapping[str, Application]
    cluster: Cluster
    prices: Prices
    kinds: Mapping[str, SliceKind]

    @property
    def slice_memory_mb(self) -> int:
        """Of a usual slice."""
        return self.kinds[USUAL].memory_mb

    def memories_mb(self, slices: Iterable[str]) -> tuple[int, ...]:
        """Of slices of these kinds."""
        return tuple(self.kinds[kind].memory_mb for kind in slices)

    def kind_of(self, names: Sequence[str]) -> str:
        """The kind of a slice that goes by these names, the most specific one first. One that is
        not known keeps its first name, and nothing is planned there."""
        usual = self.kinds[USUAL].name
        if not usual:
            return USUAL
        for name in names:
            if name == usual:
                return USUAL
            if name in self.kinds:
                return name
        return names[0]

    def application(self, name: str) -> Application:
        try:
            return self.applications[name]
        except KeyError:
            raise Rejected(did_you_mean("application", name, self.applications)) from None

    def function(self, name: str) -> Function:
        try:
            return self.functions[name]
        except KeyError:
            raise Rejected(did_you_mean("function", name, self.functions)) from None

    def unmeetable(self) -> dict[str, str]:
        """Applications that can never be in time, with the reason: whose requests, as long as they
        bring no SLO of their own, are all refused."""
        found = {}
        for name, application in self.applications.items():
            fastest_us = application.fastest_us()[application.root]
            if (why := slo_complaint(name, application.slo_us, fastest_us)) is not None:
                alone = one_core_complaint(application.functions())
                found[name] = f"{why}: {alone}" if alone else why
        return found


def slo_complaint(name: str, slo_us: int, fastest_us: int) -> str | None:
    """Why an application cannot be done within an SLO, if it cannot."""
    if slo_us >= fastest_us:
        return None
    return (
        f"an SLO of {to_ms(slo_us):g} ms cannot be met: {name} takes {to_ms(fastest_us):g} ms "
        "with the fastest configs"
    )


def one_core_complaint(functions: Iterable[Function]) -> str:
    """Why more vCPUs are no help to single jobs of these functions, if that is so of any."""
    slow = [function.name for function in functions if function.profile.cpu is CpuUse.ACROSS_JOBS]
    if not slow:
        return ""
    return (
        f"further vCPUs make no single job of {', '.join(slow)} faster "
        f'(cpu = "{CpuUse.ACROSS_JOBS}")'
    )


def scaled(catalog: Catalog, factor: float) -> Catalog:
    """A catalog for a world where everything takes `factor` times as long.

    Profiled times, cold starts and SLOs are multiplied, and costs follow the times. Nothing takes
    less than a microsecond, so a very small factor makes fast functions look slower than they are.
    """
    if not (factor > 0 and math.isfinite(factor)):
        raise Rejected(f"the time scale is {factor}; it must be a number greater than 0")
    if factor == 1:
        return catalog
    functions = {
        name: replace(
            function,
            profile=function.profile.scaled(factor, catalog.prices),
            cold_start_us=round(function.cold_start_us * factor),
            reload_us=None if function.reload_us is None else round(function.reload_us * factor),
        )
        for name, function in catalog.functions.items()
    }
    applications = {
        name: replace(
            application.with_functions(lambda function: functions[function.name]),
            slo_us=max(1, round(application.slo_us * factor)),
        )
        for name, application in catalog.applications.items()
    }
    return replace(catalog, functions=functions, applications=applications)


def with_profiles(catalog: Catalog, changed: Callable[[Profile], Profile]) -> Catalog:
    """A catalog with other profiles for its functions."""
    functions = {
        name: replace(function, profile=changed(function.profile))
        for name, function in catalog.functions.items()
    }
    applications = {
        name: application.with_functions(lambda function: functions[function.name])
        for name, application in catalog.applications.items()
    }
    return replace(catalog, functions=functions, applications=applications)


def with_tasks(catalog: Catalog, mode: TaskMode) -> Catalog:
    """A catalog whose profiles have the costs of tasks of this mode."""
    if all(function.profile.mode is mode for function in catalog.functions.values()):
        return catalog
    return with_profiles(catalog, lambda profile: profile.priced(catalog.prices, mode))
