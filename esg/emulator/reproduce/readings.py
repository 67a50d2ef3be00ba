"""What the readings of each system are, and where ours are not what the paper describes."""

from collections.abc import Iterator

from esg.emulator.reproduce.experiments import SYSTEMS, Results, main
from esg.emulator.scenario import SETTINGS

READINGS = {
    "esg": "Before every stage anew, the cheapest configs for all stages to come that keep the "
    "deadline by their mean times.",
    "infless": "A function at a time, within a fixed share of the SLO. Of all pairs of config and "
    "node it takes the one with the most throughput per weight of what the config takes, divided "
    "by the fraction of the node that is then left free: the published idea.",
    "infless-code": "The same without dividing by what the config takes, which is what its public "
    "code computes.",
    "infless-config-first": "Throughput per weight alone chooses the config; the fraction left "
    "free only chooses the node.",
    "fast-gshare": "A function at a time, within a fixed share of the SLO: the config with the "
    "most throughput per vGPU, on the node that it fits most tightly. Read to the letter, vCPUs "
    "count for nothing, so that a task takes as many as make it a little faster.",
    "fast-gshare-lean": "The same, but each pair of batch and vGPUs gets no more vCPUs than it "
    "needs to keep its share of the SLO.",
    "orion": "The whole pipeline once, when its first stage is scheduled. From the minimum config "
    "of every stage, best-first search takes up the state with the lowest P95, until one is within "
    "the SLO.",
    "orion-at-slo": "The same search, but for the P95 that is closest to the SLO, until one is "
    "within it by at most a percent: what time is left goes into larger batches.",
    "aquatope": "One config per stage, learnt before by Bayesian optimisation from runs of the "
    "application alone, and never revised.",
    "esg, with A*": "The search of the paper: best-first over groups of three functions, each with "
    "its quota of the SLO.",
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
    """Of all orders given, per setting and seed; none if they were not kept."""
    outcomes = [outcome for s in SETTINGS for outcome in results.outcomes[main(s, policy)]]
    digests = [str(outcome.summary.get("digest", "")) for outcome in outcomes]
    return digests if all(digests) else None
