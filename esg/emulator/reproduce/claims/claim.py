"""A claim of the paper's evaluation, with its verdict."""

from dataclasses import dataclass

END_TO_END = "End-to-end performance"
ANALYSIS = "Detailed analysis"
OVERHEAD = "Overhead analysis"
SENSITIVITY = "Sensitivity study"
ABLATION = "Impact of GPU sharing and batching"


@dataclass(frozen=True, slots=True)
class Claim:
    """One line of the evaluation. `why` is empty when there is nothing to explain."""

    section: str
    text: str
    paper: str
    ours: str
    reproduced: bool
    why: str = ""

    @property
    def verdict(self) -> str:
        return "reproduced" if self.reproduced else "not reproduced"
