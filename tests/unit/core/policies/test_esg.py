"""What ESG offers when a deadline is out of reach."""

from esg.core.catalog.config import Config
from esg.core.policies.esg import Engines, Esg
from esg.core.policies.interface import Offer, QueueView
from esg.core.state.state import Job, Queue, State
from esg.units import ms
from tests.support.small_catalog import SMALL


def offered(*left_ms: int) -> Offer:
    """For jobs of `scan` with so much time left, oldest first; the fastest config takes 60 ms."""
    scan = SMALL.applications["scan"]
    jobs = [Job(f"r{n}", n, 0, ms(left)) for n, left in enumerate(left_ms, 1)]
    queue = Queue("scan/detect", "scan", "detect", jobs)
    policy = Esg(SMALL, Engines("frontier", group_size=3), k=5)
    offer = policy.decide(QueueView(0, scan, scan.stages["detect"], queue, State()))
    assert isinstance(offer, Offer)
    return offer


def test_effort_of_a_decision_counts_all_its_searching() -> None:
    assert offered(100).effort == 1  # it was looked up
    assert offered(50).effort == 4  # those, and once more to find the cheapest
    assert offered(50, 50).effort == 8


def test_lost_jobs_go_together_and_the_others_are_planned_for_by_themselves() -> None:
    assert offered(50, 50).plans[0].config.batch == 2
    assert offered(50, 100).plans[0].config.batch == 1
    assert offered(150, 50).plans[0].config == Config(1, 1, 1)
