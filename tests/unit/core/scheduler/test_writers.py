"""Who writes what: a job's phase and the busy queues have one writer."""

import re

from tests.support.sources import sources

WRITES = re.compile(
    r"\.phase = |del self\._busy|self\._busy\[[^]]*\] = |queue\.jobs\.|del queue\.jobs"
    r"|queue\.(put|remove|take)\("
)


def test_lifecycle_alone_moves_a_job_from_phase_to_phase() -> None:
    writers = [file for file, source in sources("esg/core") if WRITES.search(source)]
    assert writers == ["esg/core/scheduler/lifecycle.py"]
