"""Background removal on CPU: MediaPipe's network for people, trained, instead of U²-Net."""

import sys
from pathlib import Path

# Triton runs this with the models' Python, which knows nothing of the project
sys.path.append(str(Path(__file__).resolve().parents[4]))

from networks.seeing import CuttingOut as TritonPythonModel

__all__ = ["TritonPythonModel"]
