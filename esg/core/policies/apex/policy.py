"""Policy `apex`, our own: ESG's idea with what is measured, and with patience.

Like ESG it plans the rest of the pipeline before every stage and takes the cheapest plan that is in
time. It differs in what it takes into account (each is a `Feature` that can be left out;
docs/apex.md tells the whole story and what each of them brings):

    - times as they are measured (`forecast`), and the risk to be late as part of the price
      (`risk`);
    - batches that the jobs at hand can fill (`batch_aware`), and waiting for more (`holding`);
    - vCPUs that get dearer as they run out (`vcpu_pricing`);
    - nodes where a group of jobs can stay together (`groups`, `placement`), and where there
      is no room for what is safe, what there is room for;
    - the jobs that can make it before those that cannot, and of them the ones nearest to their end;
    - models for all stages of an application that is called (`prewarming`);
    - nodes that go on with the next stage by themselves where nobody competes (`standing_orders`).

Jobs that can no longer make their deadline go out together, as cheaply as possible, while a quarter
of the cluster is free.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial

from msgspec.structs import replace

from esg.core.catalog.model import Application, Catalog, Stage
from esg.core.catalog.profile import Profile
from esg.core.policies.apex.batch_aware import BatchPlans
from esg.core.policies.apex.features import Feature
from esg.core.policies.apex.forecast import AS_PROFILED, Forecast, Onward, Z, forecast, onward
from esg.core.policies.apex.groups import Group, groups
from esg.core.policies.apex.holding import hold_until_us
from esg.core.policies.apex.placement import Rooms, cold, nearby
from esg.core.policies.apex.risk import RiskModel
from esg.core.policies.apex.vcpu_pricing import LEVELS, RepricedProfiles, level
from esg.core.policies.baselines import round_robin
from esg.core.policies.interface import Hold, Offer, Placement, QueueView
from esg.core.policies.placement import anywhere, locality_first
from esg.core.search.plan import Plan
from esg.core.state.node_books import NodeBooks
from esg.core.state.state import Queue
from esg.limits import LONGEST_US
from esg.units import ms

NODES_PER_MS = 200
"""What `Offer.effort` counts, in a millisecond of CPython."""

CONFIGS = 24
"""How many are offered, so that one of them fits somewhere."""

SPARED = 0.25
"""The share of vGPUs that the hopeless leave free for those that can still make it."""

LOOK_AGAIN_US = ms(50)
"""How often it is checked whether the hopeless may run."""


class Aimed(Offer, kw_only=True):
    """Plans for one group: where it would like to run, and what it would pay for being late.

    If there is no room for any of them, its oldest job had better go by itself, with the fastest
    that there is room for, than wait until only large configs would do. `likely_us` is the time
    that it may plan with, if it dares; such plans are searched for when they are needed, and kept
    `at_once`.
    """

    stage: Stage
    expected: Forecast
    near: str = ""
    left_us: int = 0
    rest_us: int = 0
    late_pusd: int = 0
    likely_us: int | None = None
    at_once: tuple[Plan, ...] = ()

    def price(self, plan: Plan, late_us: int) -> int | None:
        """What a job pays for a plan, risk included. The minimum config, which is tried when
        nothing else fits, knows of its own stage only; others need some time too."""
        expected, left_us = self.expected, self.left_us - late_us
        own_us = int(self.stage.function.profile.time_us_of(plan.config) * expected.own_pace)
        planned_us = expected.from_search_us(max(plan.time_us, own_us + self.rest_us))
        if planned_us > expected.likely_us(left_us):
            return None
        return plan.job_cost_pusd + int(self.late_pusd * expected.risk(left_us, planned_us))


class BatchPlansCache:
    """What plans are made with, for each application of a catalog. Building all of it takes some
    thirty milliseconds per application, so if another catalog has the same one, it is used again;
    and what was needed so far for one that has changed is built at once, not when the next decision
    waits for it: whoever changes it may do that in a thread.
    """

    def __init__(self) -> None:
        self._built: dict[Application, tuple[BatchPlans, ...]] = {}
        self._repriced = RepricedProfiles()

    def of(self, catalog: Catalog) -> dict[str, tuple[BatchPlans, ...]]:
        """The plans by the names of the applications, for each level of scarcity."""
        self._repriced.keep(catalog)
        before = {application.name: found for application, found in self._built.items()}
        self._built = {
            application: self._built.get(application)
            or self._batch_plans(application, before.get(application.name, ()))
            for application in catalog.applications.values()
        }
        return {application.name: found for application, found in self._built.items()}

    def _batch_plans(
        self, application: Application, before: tuple[BatchPlans, ...]
    ) -> tuple[BatchPlans, ...]:
        found = tuple(BatchPlans(self._repriced.of(application, factor)) for _, factor in LEVELS)
        for plans, other in zip(found, before, strict=False):
            plans.build(other.built)
        return found


class Apex:
    """Apex without some of its features, or with them all."""

    search_steps_per_ms = NODES_PER_MS

    def __init__(
        self,
        catalog: Catalog,
        cache: BatchPlansCache,
        *,
        without: frozenset[Feature],
        locality: bool = True,
    ) -> None:
        self._without = without
        self._locality = locality
        self.prewarm_all_stages = Feature.FORESIGHT not in without
        # who is placed as ESG places has no use for it
        self._dares = locality and without.isdisjoint((Feature.DARING, Feature.PLACEMENT))
        self._stands = Feature.STANDING not in without
        self._plans = cache.of(catalog)
        self._catalog = catalog
        self._onward: dict[tuple[str, str], Onward] = {}  # as they are asked for

    def order(self, queues: Iterable[Queue], now_us: int) -> list[Queue]:
        if Feature.ORDER in self._without:
            return round_robin(queues)
        return sorted(queues, key=lambda queue: self._urgency(queue, now_us))

    def _urgency(self, queue: Queue, now_us: int) -> tuple[bool, int, int, str]:
        """The least work left first, then the least slack; what is lost comes last."""
        fastest_us = self._plans[queue.application][0].fastest_us(queue.stage)
        for job in queue.jobs:
            slack_us = job.deadline_us - now_us - fastest_us
            if slack_us >= 0:
                return False, fastest_us, slack_us, queue.name
        return True, queue.visit, 0, queue.name

    def decide(self, view: QueueView) -> Offer | Hold:
        expected = self._expected(view)
        scarce = self._scarce(view)
        plans = self._plans[view.application.name][scarce]
        lost_before_us = self._lost_before_us(view, expected)
        found = groups(view, lost_before_us, plans.most)
        if not found:
            return self._hopeless(view, plans)
        if Feature.HOPELESS in self._without and view.jobs[0].deadline_us < lost_before_us:
            return self._hopeless(view, plans)
        final = scarce > 0 or not view.application.successors[view.stage.name]
        risk = RiskModel(plans, view.stage.name, expected, final)
        holds: list[int] = []
        for group in found:
            until_us = None
            if Feature.HOLDING not in self._without:
                until_us = hold_until_us(view, group, risk)
            if until_us is None:
                return self._offer(view, group, risk)
            holds.append(until_us)
        return Hold(min(holds))

    def place(
        self, view: QueueView, offer: Offer, nodes: Mapping[str, NodeBooks]
    ) -> Placement | None:
        if not self._locality:
            return anywhere(view, offer, nodes)
        if Feature.PLACEMENT in self._without:
            return locality_first(view, offer, nodes)
        rooms = Rooms(nodes, view.stage.function)
        if isinstance(offer, Aimed):
            found = nearby(view, offer, rooms, offer.near, offer.price)
            return found or self._daring(view, offer, rooms) or cold(view, offer, nodes)
        keepers = view.keepers(offer.plans[0].config.batch)
        near = keepers[0] if keepers else ""
        return nearby(view, offer, rooms, near, _as_cheap_as_possible) or cold(view, offer, nodes)

    def _expected(self, view: QueueView) -> Forecast:
        if Feature.RISK in self._without:
            return AS_PROFILED
        key = view.application.name, view.stage.name
        stages = self._onward.get(key)
        if stages is None:
            application = self._catalog.applications[view.application.name]
            stages = self._onward[key] = onward(application, view.stage.name)
        return forecast(view, stages)

    def _scarce(self, view: QueueView) -> int:
        """The level of scarcity."""
        if Feature.SCARCITY in self._without:
            return 0
        nodes = view.state.open_nodes()
        return level(nodes.vcpus, nodes.vcpus_free)

    def _lost_before_us(self, view: QueueView, expected: Forecast) -> int:
        """Jobs with a deadline before that will not make it, unless they are faster than
        expected."""
        fastest_us = self._plans[view.application.name][0].fastest_us(view.stage.name)
        return view.now_us + int(fastest_us * expected.pace)

    def _offer(self, view: QueueView, group: Group, risk: RiskModel) -> Offer:
        stage, jobs = view.stage.name, len(group.places)
        together = risk.plans.most if Feature.COHORTS in self._without else group.cohort_size
        left_us = group.deadline_us - view.now_us
        saves = group.saves or together > 1
        terms = risk.terms(saves=saves)
        pusd, planned_us = risk.now(together, left_us, saves=saves)
        if together > 1:
            alone_pusd, alone_us = risk.now(1, left_us, saves=saves)
            if alone_pusd < pusd:  # there is no time for a batch
                jobs = together = 1
                planned_us = alone_us
        expected = terms.expected
        search = partial(risk.plans.search, stage, k=CONFIGS, own_pace=expected.own_pace)
        limit_us = expected.for_search_us(max(planned_us, terms.safe_us(left_us)))
        answer = search(jobs=jobs, cohort_size=together, left_us=limit_us)
        profile = view.stage.function.profile
        plans, picks, effort = answer.plans, tuple(group.places), answer.effort
        likely_us = expected.for_search_us(expected.likely_us(left_us))
        if not answer.feasible:  # too late to be safe
            alone = search(jobs=1, cohort_size=1, left_us=likely_us)
            plans, picks = _fastest_first(alone.plans, profile), picks[:1]
            effort += alone.effort
        near = group.beside_on
        if view.stage.after:
            near = view.keepers_of([view.jobs[place] for place in group.places])[0]
        return Aimed(
            plans,
            effort,
            picks=picks,
            stands=self._stands * (expected.pace + Z * expected.spread),
            near=near,
            left_us=left_us,
            rest_us=risk.plans.rest_us(stage),
            stage=view.stage,
            expected=expected,
            late_pusd=terms.late_pusd,
            likely_us=likely_us if self._dares and answer.feasible else None,
        )

    def _daring(self, view: QueueView, offer: Aimed, rooms: Rooms) -> Placement | None:
        """A place for the oldest job by itself: the less time it takes, the less is the risk to be
        late."""
        if offer.likely_us is None:
            return None
        if not offer.at_once:
            plans = self._plans[view.application.name][self._scarce(view)]
            own_pace, left_us = offer.expected.own_pace, offer.likely_us
            answer = plans.search(
                view.stage.name,
                jobs=1,
                cohort_size=1,
                left_us=left_us,
                k=CONFIGS,
                own_pace=own_pace,
            )
            offer.at_once = _fastest_first(answer.plans, view.stage.function.profile)
            offer.effort += answer.effort
        for plan in offer.at_once if rooms.any() else ():
            alone = replace(offer, plans=(plan,), picks=offer.picks[:1])
            found = nearby(view, alone, rooms, offer.near, offer.price)
            if found is not None:
                return found
        return None

    def _hopeless(self, view: QueueView, plans: BatchPlans) -> Offer | Hold:
        nodes = view.state.open_nodes()
        crowded = nodes.vgpus_free <= SPARED * nodes.vgpus_usable
        if Feature.HOPELESS not in self._without and crowded:
            return Hold(view.now_us + LOOK_AGAIN_US)
        jobs = self._lost_in_front(view)
        answer = plans.search(
            view.stage.name, jobs=jobs, cohort_size=jobs, left_us=LONGEST_US, k=CONFIGS
        )
        return Offer(answer.plans, answer.effort)

    def _lost_in_front(self, view: QueueView) -> int:
        """How many jobs at the front of the queue cannot make it."""
        lost_before_us = self._lost_before_us(view, self._expected(view))
        kept = (n for n, job in enumerate(view.jobs) if job.deadline_us >= lost_before_us)
        return next(kept, len(view.jobs))


def _fastest_first(plans: Sequence[Plan], profile: Profile) -> tuple[Plan, ...]:
    return tuple(sorted(plans, key=lambda plan: profile.time_us_of(plan.config)))


def _as_cheap_as_possible(plan: Plan, late_us: int) -> int:
    """The price for those that are late anyway."""
    return plan.job_cost_pusd
