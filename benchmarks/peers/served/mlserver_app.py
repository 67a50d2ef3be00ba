"""MLServer: a runtime of its own whose models give what they are given."""
# mypy: ignore-errors

from mlserver import MLModel
from mlserver.types import InferenceRequest, InferenceResponse, ResponseOutput


class NoOp(MLModel):
    async def load(self) -> bool:
        return True

    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        (given,) = payload.inputs
        output = ResponseOutput(
            name="output", shape=given.shape, datatype=given.datatype, data=given.data
        )
        return InferenceResponse(model_name=self.name, outputs=[output])
