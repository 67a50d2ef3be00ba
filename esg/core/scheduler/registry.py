"""The registry: applications that come and go while the mesh runs.

People speak of an application by its plain name. Registering a name that exists makes a new version
of it: new requests get that one, and those under way finish with the version they began with, in
AFW queues of its own. Retiring a name leaves it without a version for new requests.

    registered photo            photo     for new requests
    registered photo again      photo@2   for new requests; photo, while requests are under way
    retired photo               photo@2, while requests are under way

A version that is neither in force nor in use is forgotten when the next change comes. The catalog's
own applications are versions like any other. Functions do not change: invokers have them.

A change is drafted first. What depends on the catalog may refuse the draft, and then nothing has
happened; adopting it cannot fail.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from esg.core.catalog.model import Application, Catalog, Stage, slo_complaint
from esg.core.messages.commands import RefusalKind
from esg.core.messages.events import ApplicationChange, ApplicationRegistered, StageSpec
from esg.core.scheduler.admission import Rejection
from esg.core.state.state import ApplicationVersions, Queue, Registrations, State
from esg.errors import Rejected
from esg.limits import LONGEST_US, MOST_STAGES
from esg.names import queue_name, versioned
from esg.suggest import did_you_mean
from esg.units import to_ms


@dataclass(frozen=True, slots=True)
class Draft:
    """How things would be: `catalog` has every version there is, by its versioned name; `current`
    has what new requests get, by its plain name."""

    registrations: Registrations
    catalog: Catalog
    current: dict[str, Application]


class Registry:
    """Which versions of which applications there are; all memory is in `state`."""

    def __init__(self, base: Catalog, state: State) -> None:
        self._base = base
        self._state = state
        self.catalog = base
        self._take_over(self._draft(state.registrations))
        for request in state.requests.values():
            if request.application not in self.catalog.applications:
                raise Rejected(
                    f"the snapshot has a request for {request.application!r}, which this catalog "
                    "does not know; restore it with the catalog it was taken with"
                )

    def draft(self, event: ApplicationChange) -> Draft:
        """What a change would come to, or a Rejected that says why it cannot be."""
        name = event.application
        now = self._state.registrations
        versions = dict(now.versions)
        made: dict[str, Application] = {}
        if isinstance(event, ApplicationRegistered):
            application = _checked(event, self._base)
            version = self._latest_version(name) + 1
            standing = ApplicationVersions(version)
            key = versioned(name, version)
            versions[key], made[key] = event, replace(application, name=key)
        elif name in self.current:
            standing = ApplicationVersions(self._latest_version(name), retired=True)
        else:
            raise Rejected(did_you_mean("application", name, self.current))
        if name in self._base.applications and name not in now.standings:
            versions[name] = _spec(self._base.applications[name])
        registrations = self._in_force_or_in_use({**now.standings, name: standing}, versions)
        return self._draft(registrations, made)

    def adopt(self, draft: Draft) -> None:
        """Let a draft come true."""
        self._take_over(draft)
        for client in self._state.clients.values():
            for name, traffic in list(client.traffic.items()):
                if name not in self.current and not traffic.under_way:
                    del client.traffic[name]

    def _take_over(self, draft: Draft) -> None:
        """A draft's versions have queues, and no others. A state that was restored is as it was."""
        self._state.registrations = draft.registrations
        self.catalog = draft.catalog
        self.current = draft.current
        queues = self._state.queues
        for application in self.catalog.applications.values():
            for stage in application.stages:
                name = queue_name(application.name, stage)
                if name not in queues:
                    queues[name] = Queue(name, application.name, stage)
        for queue in list(queues.values()):
            if queue.application not in self.catalog.applications:
                del queues[queue.name]

    def version(self, name: str) -> int:
        """Which version new requests get; 0 if there is none."""
        return self._latest_version(name) if name in self.current else 0

    def _latest_version(self, name: str) -> int:
        standing = self._state.registrations.standings.get(name)
        if standing is not None:
            return standing.version
        return 1 if name in self._base.applications else 0

    def _in_force_or_in_use(
        self, standings: dict[str, ApplicationVersions], versions: dict[str, ApplicationRegistered]
    ) -> Registrations:
        """The registrations without what is not needed any more. A task may outlive the requests it
        ran for."""
        needed = {versioned(name, s.version) for name, s in standings.items() if not s.retired}
        needed.update(request.application for request in self._state.requests.values())
        needed.update(task.application for task in self._state.tasks.values())
        kept = {key: event for key, event in versions.items() if key in needed}
        known = {event.application for event in kept.values()}.union(self._base.applications)
        return Registrations({n: s for n, s in standings.items() if n in known}, kept)

    def _draft(
        self, registrations: Registrations, made: Mapping[str, Application] | None = None
    ) -> Draft:
        """Applications that stay are the same objects, so that what was built for them can too; and
        those that were `made` already are not made again."""
        standings = registrations.standings
        current = {n: a for n, a in self._base.applications.items() if n not in standings}
        applications = dict(current)
        for key, event in registrations.versions.items():
            found = self.catalog.applications.get(key) or (made or {}).get(key)
            applications[key] = found or replace(application_of(event, self._base), name=key)
        for name, standing in standings.items():
            if not standing.retired:
                current[name] = applications[versioned(name, standing.version)]
        catalog = replace(self._base, applications=applications) if standings else self._base
        return Draft(registrations, catalog, current)


def slo_rejection(name: str, slo_us: int, fastest_us: int) -> Rejection | None:
    """Why an SLO cannot be promised, if it cannot."""
    if slo_us > LONGEST_US:
        reason = f"an SLO of {to_ms(slo_us):g} ms is longer than years; give a shorter one"
        return Rejection(RefusalKind.INVALID, reason)
    why = slo_complaint(name, slo_us, fastest_us)
    return None if why is None else Rejection(RefusalKind.IMPOSSIBLE, why)


def check_slo(application: Application, name: str) -> None:
    """Whether an application, by its plain name, can keep its SLO at all."""
    fastest_us = application.fastest_us()[application.root]
    rejection = slo_rejection(name, application.slo_us, fastest_us)
    if rejection is not None:
        raise Rejected(rejection.reason)


def _checked(event: ApplicationRegistered, base: Catalog) -> Application:
    if len(event.stages) > MOST_STAGES:
        raise Rejected(f"{len(event.stages)} stages; at most {MOST_STAGES} can be registered")
    return application_of(event, base)


def application_of(event: ApplicationRegistered, base: Catalog) -> Application:
    """What is to be registered, under its plain name; or a Rejected that says what is wrong."""
    if event.slo_us is not None and event.slo_scale is not None:
        raise Rejected("the SLO is given as a time and as a multiple of L; give one of them")
    slo_scale = 1.0 if event.slo_scale is None else event.slo_scale
    if slo_scale <= 0:
        raise Rejected(f"the SLO is {slo_scale} times L; it must be a number greater than 0")
    stages = [_stage(spec, base) for spec in event.stages]
    return Application.of(
        event.application,
        stages,
        slo_us=event.slo_us,
        slo_scale=slo_scale,
        late_requests=event.late_requests,
    )


def _stage(spec: StageSpec, base: Catalog) -> Stage:
    try:
        return Stage(spec.name, base.function(spec.function), spec.after)
    except Rejected as error:
        raise Rejected(f"stage {spec.name!r}: {error}") from None


def _spec(application: Application) -> ApplicationRegistered:
    """An application of the catalog, as if it had been registered."""
    return ApplicationRegistered(
        application=application.name,
        stages=tuple(
            StageSpec(name=stage.name, function=stage.function.name, after=stage.after)
            for stage in application.stages.values()
        ),
        slo_us=application.slo_us,
        late_requests=application.late_requests,
    )
