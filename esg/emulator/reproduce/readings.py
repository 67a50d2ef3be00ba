"""What the readings of each system are, and where ours are not what the paper describes."""

from collections.abc import Iterator

from esg.core.policies.table import POLICIES
from esg.emulator.reproduce.experiments import SYSTEMS, Results, main
from esg.emulator.scenario import SETTINGS

READINGS = {
    **{name: POLICIES[name].reading for names in SYSTEMS.values() for name in names},
    "esg, with A*": "The search of the paper: best-first over groups of three functions, each with "
    "its quota of the SLO.",
    "apex": "No system of the paper: the policy that a mesh runs here unless told otherwise.",
}

DEVIATIONS = {
    "Aquatope": "After a round of training it leaves contradicted samples out for that round "
    "instead of dropping them for good (every round would drop one in twenty sound ones). It picks "
    "the best by what its processes believe of a sample, not by the one run that was seen, so that "
    "the mean time of what it learns can be slightly over the SLO.",
    "INFless": "Its least arrival rate for a single job (one per second, whatever the config) is "
    "not applied: it could only refuse all configs alike, and a job that is there must run.",
}


def alike(results: Results) -> Iterator[tuple[str, str]]:
    """Readings of one system that gave the very same orders in every run here."""
    for readings in SYSTEMS.values():
        for number, policy in enumerate(readings):
            for other in readings[number + 1 :]:
                if _digests(results, policy) == _digests(results, other) is not None:
                    yield policy, other


def _digests(results: Results, policy: str) -> list[str] | None:
    """The digests of all orders, per setting and seed; none if they were not kept."""
    outcomes = [outcome for s in SETTINGS for outcome in results.outcomes[main(s, policy)]]
    digests = [str(outcome.summary.get("digest", "")) for outcome in outcomes]
    return digests if all(digests) else None
