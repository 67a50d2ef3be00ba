"""The models that a node's Triton servers can load: links to those in the functions' folders."""

import shutil
from collections.abc import Iterable
from pathlib import Path

from google.protobuf import text_format
from tritonclient.grpc import model_config_pb2

from esg.core.catalog.model import Function

CONFIG = "config.pbtxt"


def assemble(repository: Path, functions: Iterable[Function], variant: str) -> dict[str, str]:
    """Make a model repository for slices of one variant, "cpu" or "gpu".

    Returns the functions that cannot run on them, each with the reason.
    """
    repository.mkdir()
    lacking: dict[str, str] = {}
    for function in functions:
        if reason := link(repository, function, variant):
            lacking[function.name] = reason
    return lacking


def link(repository: Path, function: Function, variant: str) -> str:
    """Have a function's model found by Triton, which reads it when it loads it; why that cannot be,
    if so.

    The bytecode of a model in Python is removed: it counts as current if its source is as long as
    before and was written in the same second, so that a model which is reloaded soon after a change
    would be the old one.
    """
    model = Path(function.folder) / "models" / variant
    reason = _flaw(function, model, variant)
    for bytecode in model.glob("[0-9]*/__pycache__"):
        shutil.rmtree(bytecode, ignore_errors=True)
    found = repository / function.name
    if not reason and not found.is_symlink():
        found.symlink_to(model)
    return reason


def _flaw(function: Function, model: Path, variant: str) -> str:
    """Why there is nothing to load; Triton would only say that it found nothing."""
    if not function.folder:
        return (
            f"{function.name} has no folder in the catalog, so there is no model of it for "
            f"{variant} slices; give it one (docs/functions.md)"
        )
    config = model / CONFIG
    try:
        text_format.Parse(config.read_text("utf-8"), model_config_pb2.ModelConfig())
    except FileNotFoundError:
        return f"{function.name} has no model for {variant} slices: {config} is not there"
    except (OSError, UnicodeDecodeError, text_format.ParseError) as error:
        return f"{function.name}: {config} cannot be read: {error}"
    if not any(model.glob("[0-9]*")):
        return (
            f"{function.name} has no model for {variant} slices yet: {model} has its description "
            "and no version of it; make one with export.py in the function's folder, if there is "
            "one (docs/gpu-host.md)"
        )
    return ""
