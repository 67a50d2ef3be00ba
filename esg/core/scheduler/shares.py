"""Fair sharing of vGPU time: by client first, by application within a client.

What each was given is counted (`Share.vgpu_time_used_us`), and whoever was given less comes first:
virtual time, as in fair queueing. It decides in two places.

    - Between queues, while room is short: one whose client was given more than another's, by a
      quantum or more, comes after it; among those of one client the same goes for applications.
      Below that the policy's order holds. A queue's client is the one with the least of those who
      wait in it.
    - Between the jobs of one queue: each client has a lane, and the lanes stand in the order of
      what their clients were given; of equals, the shorter goes first. Within a lane it is the
      order of the requests. A batch that has room left is filled from the next lane.

A client saves up time without work to a credit of five quanta, and no more: when it begins anew,
it is that far behind the least of those who have work, or as far as it was, if that is less. So one
that asks for less than its share goes first with all stages of a request, instead of waiting for
its turn, and for a task that nobody interrupts, between any two of them; and nobody is ever given
more than a share and the credit. A client without work is forgotten once others were given as much
and the credit, or when nobody has any: it begins where a new one does. The applications of one
client save up nothing.

A worked example: a quantum is 200 ms. `flood` was given 9 s and has 500 jobs of `scan` waiting, 100
ms each on one slice; `calm` asks for `scan` as well. It begins at 8 s, and its jobs are the next to
go: ten of them, if it has so many at once, until it is at 9 s too. From then on each of its jobs
comes after at most two of `flood`. Should it have had no work for a while by then, it is behind
again.

Without a quantum the policy alone decides, all clients are one, and nothing is counted.
"""

from collections.abc import Iterable, Sequence

from esg.core.state.state import Client, Queue, Request, Share, State, Traffic
from esg.names import plain_name
from esg.units import NEVER_US

CREDIT_QUANTA = 5
"""How much time without work a client may save up."""


class Shares:
    """Who was given how much, and who is next."""

    def __init__(self, state: State, quantum_us: int) -> None:
        self._state = state
        self._quantum_us = quantum_us
        self._credit_us = CREDIT_QUANTA * quantum_us

    def payer(self, client: str) -> str:
        """Whose share a client's requests are given vGPU time from."""
        return client if self._quantum_us else ""

    def count_in(self, client: str, application: str) -> None:
        """Count a request that begins."""
        own = self._state.clients.get(client) or self._new(client)
        if not own.under_way:
            self._begin(client, own)
        traffic = own.traffic.get(application)
        if traffic is None:
            traffic = own.traffic[application] = Traffic()
        if not traffic.under_way:
            _catch_up(traffic, _of_busy(own.traffic.values()))
        own.under_way += 1
        traffic.under_way += 1

    def _new(self, client: str) -> Client:
        self._state.clients[client] = found = Client()
        return found

    def _begin(self, client: str, own: Client) -> None:
        """A client has work again: level with the others, but for its credit. Those are forgotten
        for whom it makes no difference any more."""
        clients = self._state.clients
        busy = _of_busy(clients.values())
        _catch_up(own, [us - self._credit_us for us in busy])
        least_us = min(busy, default=NEVER_US)
        for name, other in list(clients.items()):
            idle = name != client and not other.under_way
            if idle and other.vgpu_time_used_us + self._credit_us <= least_us:
                del clients[name]

    def count_out(self, client: str, application: str) -> Traffic:
        """Count a request that ends; returns those like it."""
        own = self._state.clients[client]
        traffic = own.traffic[application]
        own.under_way -= 1
        traffic.under_way -= 1
        return traffic

    def charge(self, application: str, requests: Sequence[Request], vgpu_time_us: int) -> None:
        """A task of these requests is given so much; each of them pays an equal part."""
        if not self._quantum_us:
            return
        name, clients = plain_name(application), self._state.clients
        left_us, others = vgpu_time_us, len(requests)
        for request in requests:
            part_us = left_us // others
            left_us -= part_us
            others -= 1
            client = clients[request.client]
            client.vgpu_time_used_us += part_us
            client.traffic[name].vgpu_time_used_us += part_us

    def arrange(self, queue: Queue) -> None:
        """Put the lanes of a queue in the order in which their clients are next."""
        clients, lanes = self._state.clients, queue.lanes
        queue.arrange(sorted(lanes, key=lambda c: (clients[c].vgpu_time_used_us, lanes[c])))

    def in_turn(self, queues: Sequence[Queue]) -> list[Queue]:
        """These queues, those first whose clients and applications were given less, by quanta;
        otherwise as they are."""
        clients, quantum_us = self._state.clients, self._quantum_us
        used_us = {
            (client, queue.name): clients[client].traffic[name].vgpu_time_used_us
            for queue in queues
            for name in (plain_name(queue.application),)
            for client in queue.lanes
        }
        least_of: dict[str, int] = {}
        for (client, _), us in used_us.items():
            least_of[client] = min(us, least_of.get(client, us))
        least_us = min([clients[client].vgpu_time_used_us for client in least_of])

        def quanta(queue: Queue) -> tuple[int, int]:
            client = min(queue.lanes, key=lambda c: clients[c].vgpu_time_used_us)
            ahead_us = clients[client].vgpu_time_used_us - least_us
            own_ahead_us = used_us[client, queue.name] - least_of[client]
            return ahead_us // quantum_us, own_ahead_us // quantum_us

        return sorted(queues, key=quanta)


def _of_busy(shares: Iterable[Share]) -> list[int]:
    """The vGPU time that those were given who have work."""
    return [share.vgpu_time_used_us for share in shares if share.under_way]


def _catch_up(share: Share, busy: list[int]) -> None:
    """Who had no work was given no less than the least of those who have, as they are given here:
    time without work is not saved up."""
    share.vgpu_time_used_us = max(share.vgpu_time_used_us, min(busy, default=0))
