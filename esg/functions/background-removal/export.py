"""Exports U²-Net (Qin et al., Pattern Recognition '20) for MIG slices."""

from pathlib import Path
from typing import Any

from esg.functions.exporting import ExportArguments, ExportedNetwork, export

NETWORK = ExportedNetwork(
    folder=Path(__file__).parent,
    name="U²-Net",
    output="mask",
    sides=(320, 320),
    source="""\
Code of the authors; their README links to the weights, u2net.pth:
  git clone https://github.com/xuebinqin/U-2-Net
  python export.py --repository U-2-Net --weights u2net.pth""",
)


def make(asked: ExportArguments) -> Any:
    """The network gives seven masks, from which it learns; the first is the result."""
    whole = asked.load_into(asked.module("model").U2NET(3, 1))

    class Mask(asked.torch.nn.Module):  # type: ignore[name-defined,misc]
        def __init__(self) -> None:
            super().__init__()
            self.whole = whole

        def forward(self, picture: Any) -> Any:
            return self.whole(picture)[0]

    return Mask()


if __name__ == "__main__":
    export(NETWORK, make)
