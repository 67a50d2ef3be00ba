"""Deblurring on CPU: Real-ESRGAN, trained, instead of DeblurGAN."""

import sys
from pathlib import Path

# Triton runs this with the models' Python, which knows nothing of the project
sys.path.append(str(Path(__file__).resolve().parents[4]))

from networks.enlarging import Sharpening as TritonPythonModel

__all__ = ["TritonPythonModel"]
