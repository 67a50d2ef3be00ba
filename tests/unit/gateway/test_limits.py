import pytest

from gateway.limits import FORGET_EVERY, Rates
from mesh.problems import Exhausted


def test_a_bucket_fills_again_at_its_rate() -> None:
    clock = [0.0]
    rates = Rates(2.0, 3, lambda: clock[0])
    for _ in range(3):
        rates.take("ipv4:10.0.0.1:1")
    with pytest.raises(Exhausted, match=r"try again in 0\.500 s"):
        rates.take("ipv4:10.0.0.1:2")
    rates.take("ipv4:10.0.0.2:1")  # somebody else
    clock[0] = 0.5
    rates.take("ipv4:10.0.0.1:3")
    with pytest.raises(Exhausted):
        rates.take("ipv4:10.0.0.1:3")


def test_a_bucket_is_never_more_than_full() -> None:
    clock = [0.0]
    rates = Rates(2.0, 3, lambda: clock[0])
    rates.take("ipv4:10.0.0.1:1")
    clock[0] = 1000.0
    for _ in range(3):
        rates.take("ipv4:10.0.0.1:1")
    with pytest.raises(Exhausted):
        rates.take("ipv4:10.0.0.1:1")


def test_clients_that_have_been_quiet_are_forgotten() -> None:
    clock = [0.0]
    rates = Rates(1.0, 1, lambda: clock[0])
    for number in range(10 * FORGET_EVERY):
        clock[0] += 0.01
        rates.take(f"ipv4:{number}:1")
    assert len(rates) <= FORGET_EVERY + 200


def test_without_a_rate_nothing_is_counted() -> None:
    rates = Rates(0.0, 1, lambda: 0.0)
    for _ in range(10):
        rates.take("ipv4:10.0.0.1:1")
    assert len(rates) == 0
