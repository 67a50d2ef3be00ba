"""What storage has to say when it cannot give what was asked for."""

from esg.errors import Fault


class Missing(Fault):
    """It is not there (any more). The scheduler has it made again."""

    def __init__(self, request: str, stage: str, where: str) -> None:
        is_payload = not stage or stage.startswith("@")  # see `names`
        what = "the payload" if is_payload else f"the output of stage {stage!r}"
        super().__init__(f"{what} of request {request!r} is not in {where}")
        self.request = request
        self.stage = stage


class Refused(Fault):
    """The server does not do what it was asked."""
