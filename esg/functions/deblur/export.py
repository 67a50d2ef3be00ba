"""Exports DeblurGAN (Kupyn et al., CVPR '18) for MIG slices."""

from pathlib import Path
from typing import Any

from esg.functions.exporting import ExportArguments, ExportedNetwork, export

NETWORK = ExportedNetwork(
    folder=Path(__file__).parent,
    name="DeblurGAN",
    output="sharpened",
    sides=(256, 256),
    any_size=True,
    source="""\
Code of the authors; their README links to the weights, latest_net_G.pth:
  git clone https://github.com/KupynOrest/DeblurGAN
  python export.py --repository DeblurGAN --weights latest_net_G.pth""",
)


def make(asked: ExportArguments) -> Any:
    """As the authors' test.py does with --learn_residual."""
    generator = asked.module("models.networks").define_G(
        input_nc=3,
        output_nc=3,
        ngf=64,
        which_model_netG="resnet_9blocks",
        norm="instance",
        use_dropout=False,
        gpu_ids=[],
        use_parallel=False,
        learn_residual=True,
    )
    return asked.load_into(generator)


if __name__ == "__main__":
    export(NETWORK, make)
