"""Exports SRGAN (Ledig et al., CVPR '17) for MIG slices: enlarges by four."""

from pathlib import Path
from typing import Any

from esg.functions.exporting import ExportArguments, ExportedNetwork, export

FACTOR = 4
NETWORK = ExportedNetwork(
    folder=Path(__file__).parent,
    name="SRGAN",
    output="enlarged",
    sides=(256, 256),
    any_size=True,
    source="""\
The paper's authors published no weights. Code and weights of the implementation that is used most:
  git clone https://github.com/leftthomas/SRGAN
  python export.py --repository SRGAN --weights SRGAN/epochs/netG_epoch_4_100.pth""",
)


def make(asked: ExportArguments) -> Any:
    return asked.load_into(asked.module("model").Generator(FACTOR))


if __name__ == "__main__":
    export(NETWORK, make)
