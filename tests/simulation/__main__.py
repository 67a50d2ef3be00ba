"""`python -m tests.simulation`: many stories, or one of them.

make simulate SEEDS=1000 FIRST_SEED=0
.venv/bin/python -m tests.simulation --seed 42 --policy esg
"""

import argparse
import multiprocessing
import os
import sys
from time import perf_counter

from rich.progress import track

from tests.simulation.checked_run import Broken, tell, verdict
from tests.simulation.story import POLICIES, draw

SHOWN = 3
"""Failures that are told in full; of more there is only the count."""


def main() -> int:
    options = _options()
    if options.seed is not None:
        return _one(options.seed, options.policy)
    seeds = range(options.first_seed, options.first_seed + options.seeds)
    began_s = perf_counter()
    failures = []
    events = 0
    with multiprocessing.get_context("spawn").Pool(options.processes) as workers:
        jobs = [(seed, options.policy) for seed in seeds]
        found = workers.imap_unordered(verdict, jobs, chunksize=5)
        for seed, count, failure in track(found, "simulating", total=len(jobs)):
            events += count
            if failure:
                failures.append((seed, failure))
    for _, failure in sorted(failures)[:SHOWN]:
        print(failure, file=sys.stderr)
    took_s = perf_counter() - began_s
    print(
        f"{len(seeds)} seeds from {seeds.start}, {events} events in {took_s:.1f} s "
        f"({len(seeds) / took_s:.0f} seeds/s): {len(failures)} broke a promise"
    )
    return bool(failures)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation")
    parser.add_argument("--seeds", type=int, default=1000, help="how many")
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--seed", type=int, help="only this one, with all its events")
    parser.add_argument("--policy", choices=POLICIES, help="instead of the one that is drawn")
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    return parser.parse_args()


def _one(seed: int, policy: str | None) -> int:
    story = draw(seed, policy)
    print(story)
    try:
        told = tell(story, say=print)
    except Broken as error:
        print(error, file=sys.stderr)
        return 1
    print(f"seed {seed} under {story.policy}: {told.events} events, all promises kept")
    return 0


if __name__ == "__main__":
    sys.exit(main())
