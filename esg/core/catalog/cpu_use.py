"""What several vCPUs do for the CPU part of a batch: of a profile's model, and of a handler."""

from enum import StrEnum


class CpuUse(StrEnum):
    """One job after the other with all vCPUs, or each job on a core of its own, side by side.

    `WITHIN_JOB` makes a single job faster, as far as its CPU part can be parallelized (Amdahl's
    law); `ACROSS_JOBS` leaves a single job as slow as with one vCPU, and does as many jobs at a
    time as there are vCPUs.
    """

    WITHIN_JOB = "within_job"
    ACROSS_JOBS = "across_jobs"
