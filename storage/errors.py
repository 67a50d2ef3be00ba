"""What storage has to say when it cannot give what was asked for."""

from esg.errors import Fault


class Missing(Fault):
    """It is not there (any more). The scheduler has it made again."""

    def __init__(self, request: str, stage: str, where: str) -> None:
        what = f"the output of stage {stage!r}" if stage else "the payload"
        super().__init__(f"{what} of request {request!r} is not in {where}")
        self.request = request
        self.stage = stage
