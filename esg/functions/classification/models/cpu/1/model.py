"""Classification on CPU: EfficientNet-Lite0, trained, instead of ResNet50."""

import sys
from pathlib import Path

# Triton runs this with the models' Python, which knows nothing of the project
sys.path.append(str(Path(__file__).resolve().parents[4]))

from networks.seeing import Classifying as TritonPythonModel

__all__ = ["TritonPythonModel"]
