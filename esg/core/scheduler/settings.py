"""Scheduler settings: all that decisions depend on, besides the catalog and what happens.

A journal's header holds them as they are, so that a replay builds the same scheduler.
"""

from dataclasses import dataclass

from esg.core.catalog.phases import TaskMode
from esg.core.policies.settings import PolicySettings, least_one
from esg.units import ms


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerSettings(PolicySettings):
    """The policy by name, what can be set about it, and the settings of what surrounds it.

    `tasks` says whether tasks hold what they were granted for all of their time, or phase by phase.
    `prewarm` says whether models are loaded ahead of predicted calls, and `follow_profiles` whether
    plans follow what tasks really take (see `drift`). `max_attempts` is how often one stage of a
    request may fail before the request does (on one node: `candidates.FAILURES_ON_ONE_NODE`), and
    `retry_pause_us` the time before its second retry (see `retries`). A queue that finds no room is
    looked at again after `recheck_interval_us`, which stands for the time that the paper's
    controller takes for a round, and takes the minimum config after `recheck_rounds` (see
    `dispatch`). A request is refused that would wait for longer than `max_wait_us`. `max_waiting`
    are the jobs of one client for one application that may wait, `max_waiting_in_all` those of all
    together; 0 is any time or number (see `admission`). `fair_quantum_us` is how much vGPU time one
    client, or one of its applications, may be ahead of another while both wait, 0 if that is for
    the policy alone to decide (see `shares`).
    """

    policy: str = "esg"
    tasks: TaskMode = TaskMode.JOINT
    prewarm: bool = True
    follow_profiles: bool = False
    max_attempts: int = 3
    retry_pause_us: int = ms(20)
    recheck_rounds: int = 3
    recheck_interval_us: int = ms(5)
    max_wait_us: int = 0
    max_waiting: int = 0
    max_waiting_in_all: int = 0
    fair_quantum_us: int = 0

    def __post_init__(self) -> None:
        PolicySettings.__post_init__(self)
        least_one(self, "max_attempts", "recheck_rounds", "recheck_interval_us")
