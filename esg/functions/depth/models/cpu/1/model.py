"""Depth on CPU: a small network, untrained, instead of MiDaS."""

import sys
from pathlib import Path

# Triton runs this with the models' Python, which knows nothing of the project
sys.path.append(str(Path(__file__).resolve().parents[4]))

from networks.seeing import Ranging as TritonPythonModel

__all__ = ["TritonPythonModel"]
