import pytest

from esg.errors import Fault, Rejected
from esg.gateway.access.identity import Caller
from esg.gateway.limits.memory_budget import MemoryBudget
from esg.gateway.limits.rate_limits import ClientQuotas
from esg.runtime.rpc.status import Exhausted, TooLarge
from esg.runtime.security.tokens import Quota
from esg.runtime.token_bucket import FORGET_EVERY
from esg.units import DAY_S


class Door:
    """Limits, a clock to turn, and a caller by name."""

    def __init__(self, quota: Quota, max_streams: int = 2) -> None:
        self.now_s = 0.0
        self.limits = ClientQuotas(max_streams, MemoryBudget(10**9, 10**9), lambda: self.now_s)
        self._quota = quota

    def take(self, name: str = "alice", payload_bytes: int = 1) -> None:
        self.limits.take(self.caller(name))
        with self.limits.payload(self.caller(name)) as charge:
            charge.add(payload_bytes)

    def caller(self, name: str = "alice") -> Caller:
        return Caller(name, name, self._quota)


def test_a_bucket_fills_again_at_its_rate() -> None:
    door = Door(Quota(requests_per_s=2.0, burst=3))
    for _ in range(3):
        door.take()
    with pytest.raises(Exhausted, match=r"from alice; .* try again in 0\.500 s") as refused:
        door.take()
    assert refused.value.retry_after_us == 500_000
    door.take("bob")
    door.now_s = 0.5
    door.take()
    with pytest.raises(Exhausted):
        door.take()


def test_a_bucket_is_never_more_than_full() -> None:
    door = Door(Quota(requests_per_s=2.0, burst=3))
    door.take()
    door.now_s = 1000.0
    for _ in range(3):
        door.take()
    with pytest.raises(Exhausted):
        door.take()


def test_clients_that_have_been_quiet_are_forgotten() -> None:
    door = Door(Quota(requests_per_s=1.0, burst=1))
    for number in range(10 * FORGET_EVERY):
        door.now_s += 0.01
        door.take(f"client-{number}")
    assert len(door.limits._requests) <= FORGET_EVERY + 200


def test_quota_without_a_rate_counts_nothing() -> None:
    door = Door(Quota(burst=1))
    for _ in range(10):
        door.take()
    assert len(door.limits._requests) == 0


def test_a_days_bytes_come_back_over_a_day() -> None:
    door = Door(Quota(bytes_per_day=1000))
    door.take(payload_bytes=900)
    with pytest.raises(Exhausted, match="alice has sent the 1000 bytes that are allowed in a day"):
        door.take(payload_bytes=200)
    door.take(payload_bytes=100)
    door.now_s = DAY_S / 2
    door.take(payload_bytes=500)
    with pytest.raises(Exhausted, match=f"try again in {DAY_S // 2} s"):
        door.take(payload_bytes=500)


def test_a_payload_larger_than_a_days_bytes_will_never_do() -> None:
    door = Door(Quota(bytes_per_day=1000))
    with pytest.raises(TooLarge, match="larger than the 1000 bytes that alice may send in a day"):
        door.take(payload_bytes=1001)


def test_bytes_of_what_is_refused_are_given_back() -> None:
    door = Door(Quota(bytes_per_day=1000))
    for error in (Rejected("no"), Fault("not now")):
        charge = door.limits.payload(door.caller())
        charge.add(900)
        with pytest.raises(type(error)), charge:
            raise error
    door.take(payload_bytes=1000)
    with pytest.raises(Exhausted):
        door.take(payload_bytes=1)


def test_a_quota_that_changes_holds_from_then_on() -> None:
    door = Door(Quota(requests_per_s=1.0, burst=1))
    door.take()
    with pytest.raises(Exhausted):
        door.take()
    door.limits.take(Caller("alice", "alice", Quota(requests_per_s=1.0, burst=5)))


def test_streams_are_counted_while_they_are_open() -> None:
    door = Door(Quota(), max_streams=2)
    alice, bob = door.caller(), door.caller("bob")
    with door.limits.stream(alice), door.limits.stream(bob):
        third = door.limits.stream(alice)
        with (
            door.limits.stream(alice),
            pytest.raises(Exhausted, match="alice has 2 streams open"),
            third,
        ):
            pass
        with door.limits.stream(alice):
            pass
    assert not door.limits._streams


def test_a_payload_that_others_hold_is_paid_for_until_its_request_has_ended() -> None:
    memory = MemoryBudget(10**9, 10**9)
    limits = ClientQuotas(2, memory, lambda: 0.0)
    for held, paid in {False: 0, True: 100}.items():
        with limits.payload(Caller("alice", "alice", Quota())) as charge:
            charge.add(100)
            charge.content = bytes(100)
            charge.settle(held=held)
            assert (memory.held, charge.content) == (paid, b"")
        assert memory.held == 0
