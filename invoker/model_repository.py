"""The models that a node's Triton servers can load: links to those in the functions' folders."""

from collections.abc import Iterable
from pathlib import Path

from esg.catalog import Function

CONFIG = "config.pbtxt"


def assemble(repository: Path, functions: Iterable[Function], variant: str) -> dict[str, str]:
    """Make a model repository for slices of one variant, "cpu" or "gpu".

    Returns the functions that cannot run on them, each with the reason.
    """
    repository.mkdir()
    lacking: dict[str, str] = {}
    for function in functions:
        model = Path(function.folder) / "models" / variant
        if not function.folder:
            lacking[function.name] = (
                f"{function.name} has no folder in the catalog, so there is no model of it for "
                f"{variant} slices; give it one (docs/functions.md)"
            )
        elif not (model / CONFIG).is_file():
            lacking[function.name] = (
                f"{function.name} has no model for {variant} slices: {model / CONFIG} is not there"
            )
        else:
            (repository / function.name).symlink_to(model)
    return lacking
