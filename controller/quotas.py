"""Quotas that hold over all gateways: applications and their changes, counted where all pass.

What is registered costs every change a little, and every start of a controller; so there are so
many applications, and so many stages and edges in them, of each owner and in all, and so many
changes per minute (a token bucket for each client). The catalog's own applications do not count.
"""

from collections.abc import Callable, Mapping

from esg.core.messages.events import ApplicationRegistered
from esg.core.state.state import Registrations
from esg.names import OWNER_MARK, versioned
from esg.runtime.rpc.status import Exhausted
from esg.runtime.settings import ControllerSettings
from esg.runtime.token_bucket import TokenBuckets
from esg.units import seconds

MINUTE_S = 60


class ApplicationQuotas:
    def __init__(self, settings: ControllerSettings, clock_s: Callable[[], float]) -> None:
        self._settings = settings
        self._changes = TokenBuckets(clock_s)

    def take_change(self, client: str) -> None:
        """One change of whatever application; refused if there were too many."""
        most = self._settings.max_changes_per_minute
        wait_s = self._changes.take(client, 1, per_s=most / MINUTE_S, size=most)
        if wait_s:
            raise Exhausted(
                f"more than {most} changes of applications per minute from {client or 'clients'}; "
                f"try again in {wait_s:.1f} s",
                seconds(wait_s),
            )

    def check_room(self, known: Registrations, event: ApplicationRegistered) -> None:
        """Whether there is room for a new version of an application, which takes the place of the
        one that is in force."""
        name, own = event.application, self._settings
        standing = known.standings.get(name)
        replaced = versioned(name, standing.version) if standing is not None else name
        others = {key: one for key, one in known.versions.items() if key != replaced}
        self._check(others, event, own.max_applications, own.max_application_parts, "in all")
        owner = owner_of(name)
        if owner:
            theirs = {k: one for k, one in others.items() if owner_of(one.application) == owner}
            most, parts = own.max_applications_per_client, own.max_application_parts_per_client
            self._check(theirs, event, most, parts, f"of {owner}")

    def _check(
        self,
        others: Mapping[str, ApplicationRegistered],
        event: ApplicationRegistered,
        most: int,
        most_parts: int,
        whose: str,
    ) -> None:
        if len(others) >= most:
            raise Exhausted(
                f"there are {len(others)} applications {whose}, with those whose requests are "
                "still under way: the most that can be; delete some"
            )
        if parts_of(event) + sum(map(parts_of, others.values())) > most_parts:
            raise Exhausted(
                f"the applications {whose} would have more than {most_parts} stages and edges, "
                "the most that can be; delete some"
            )


def parts_of(event: ApplicationRegistered) -> int:
    """How large an application is: its stages and edges."""
    return len(event.stages) + sum(len(stage.after) for stage in event.stages)


def owner_of(name: str) -> str:
    """Whose an application is, by its name inside the mesh; empty: nobody's in particular.

    >>> owner_of("alice~photo"), owner_of("depth")
    ('alice', '')
    """
    owner, mark, _ = name.partition(OWNER_MARK)
    return owner if mark else ""
