"""A claim of the paper's evaluation, with its verdict."""

from dataclasses import dataclass

END_TO_END = "End-to-end performance"
ANALYSIS = "Detailed analysis"
OVERHEAD = "Overhead analysis"
SENSITIVITY = "Sensitivity study"
ABLATION = "Impact of GPU sharing and batching"

SIMILAR_PERCENT = 5


@dataclass(frozen=True, slots=True)
class Claim:
    """One line of the evaluation. `reason` is told if it is not reproduced, `remark` if it is."""

    section: str
    text: str
    paper: str
    ours: str
    reproduced: bool
    reason: str
    remark: str = ""

    @property
    def why(self) -> str:
        """Empty when there is nothing to explain."""
        return self.remark if self.reproduced else self.reason

    @property
    def verdict(self) -> str:
        return "reproduced" if self.reproduced else "not reproduced"
