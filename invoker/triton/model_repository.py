"""The models that a node's Triton servers can load: links to those in the functions' folders."""

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
        model = Path(function.folder) / "models" / variant
        reason = _flaw(function, model, variant)
        if reason:
            lacking[function.name] = reason
        else:
            (repository / function.name).symlink_to(model)
    return lacking


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
    return ""
