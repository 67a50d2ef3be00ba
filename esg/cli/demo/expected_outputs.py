"""The outputs that a pipeline of emulated models must give, computed without a mesh.

An emulated model gives a digest of its function and inputs. So a result that equals the chain of
digests computed from the payload went through every stage, in order, with every byte intact.
"""

from esg.core.catalog.model import Application
from esg.core.emulated_output import emulated_output, output_size


def expected_outputs(
    application: Application, payload: bytes, payload_scale: float
) -> dict[str, bytes]:
    """The outputs of the last stages, as a result has them."""
    made: dict[str, bytes] = {}
    for stage in application.stages.values():
        inputs = [made[before] for before in stage.after] or [payload]
        size = output_size(stage.function.input_bytes, payload_scale)
        made[stage.name] = emulated_output(stage.function.name, inputs, size)
    return {name: made[name] for name, after in application.successors.items() if not after}
