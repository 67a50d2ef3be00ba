"""Quotas that hold over all gateways, counted where all pass: requests, applications, changes.

Gateways count what their own clients do before it costs anything; here the same quota holds for
what a client does through all of them. A request counts once, however often it is repeated.

What is registered costs every change a little, and every start of a controller; so there are so
many applications, and so many stages and edges in them, of each owner and in all, and so many
changes per minute (a token bucket for each client). The catalog's own applications do not count.
"""

from collections import Counter
from collections.abc import Callable, Mapping

from esg.core.messages.events import ApplicationRegistered
from esg.core.state.state import Registrations
from esg.names import versioned
from esg.protos import controller_v1_pb2 as wire
from esg.runtime.rpc.status import Exhausted
from esg.runtime.security.ownership import owner_of
from esg.runtime.settings import ControllerSettings
from esg.runtime.token_bucket import TokenBuckets
from esg.units import DAY_S, seconds

MINUTE_S = 60


SLACK_S = 0.25
"""So much of its rate a client may do more here than at a gateway: what came there evenly may come
here in a heap."""


class RequestQuotas:
    """Requests per second, requests under way and bytes per day, of every client."""

    def __init__(self, clock_s: Callable[[], float]) -> None:
        self._requests = TokenBuckets(clock_s)
        self._bytes = TokenBuckets(clock_s)
        self._undecided: dict[str, wire.Submission] = {}
        self._undecided_of: Counter[str] = Counter()

    def refusal(self, submission: wire.Submission, under_way: int) -> Exhausted | None:
        """Why a new request is too much, if it is; otherwise it is counted. So many of its owner
        are `under_way`."""
        quota, owner = submission.quota, submission.owner
        under_way += self._undecided_of[owner]
        if owner and 0 < quota.in_flight <= under_way:
            return Exhausted(
                f"{owner} has {under_way} requests under way, the most that are allowed; "
                "try again when some have ended"
            )
        if quota.requests_per_s > 0:
            size = max(1, quota.burst) + quota.requests_per_s * SLACK_S
            rate = quota.requests_per_s
            wait_s = self._requests.take(quota.client, 1, per_s=rate, size=size)
            if wait_s:
                return Exhausted(
                    f"more than {rate:g} requests per second from {quota.client}, over all "
                    f"gateways; send fewer, or try again in {wait_s:.3f} s",
                    seconds(wait_s),
                )
        if quota.bytes_per_day > 0:
            daily = quota.bytes_per_day
            wait_s = self._bytes.take(
                quota.client, quota.payload_bytes, per_s=daily / DAY_S, size=daily
            )
            if wait_s:
                return Exhausted(
                    f"{quota.client} has sent the {daily} bytes that are allowed in a day, over "
                    f"all gateways; try again in {wait_s:.0f} s, or ask for a larger quota",
                    seconds(wait_s),
                )
        self._undecided[submission.request_id] = submission
        self._undecided_of[owner] += 1
        return None

    def decided(self, request: str, *, accepted: bool) -> None:
        """What was counted is under way now, or was refused: then its bytes are given back."""
        submission = self._undecided.pop(request, None)
        if submission is None:
            return
        self._undecided_of[submission.owner] -= 1
        if not self._undecided_of[submission.owner]:
            del self._undecided_of[submission.owner]
        if not accepted:
            self._bytes.give_back(submission.quota.client, submission.quota.payload_bytes)


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
