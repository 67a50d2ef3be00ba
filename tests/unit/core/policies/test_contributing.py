"""The policy that CONTRIBUTING.md shows as an example serves requests."""

from collections.abc import Callable
from typing import Any

from esg.units import ms
from tests.support.desk import Desk, arrived, joined, start
from tests.support.examples import programs
from tests.support.paths import ROOT


def test_the_policy_in_contributing_starts_the_first_stage_of_a_request(
    open_desk: Callable[..., Desk],
) -> None:
    (program,) = programs(ROOT / "CONTRIBUTING.md")
    names: dict[str, Any] = {}
    exec(program, names)
    desk = open_desk(policy=names["Frugal"])
    desk.at(ms(0), joined("i0")).at(ms(1), arrived("r1"))
    assert desk.orders == [start("t1", "scan/detect", "r1", on="i0")]
