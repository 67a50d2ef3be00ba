"""The option `--catalog`, and the catalog that it names."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from esg.errors import Rejected

if TYPE_CHECKING:
    from esg.core.catalog.model import Catalog

CatalogFile = Annotated[
    Path | None,
    typer.Option(
        "--catalog",
        metavar="FILE",
        envvar="ESG_CATALOG",
        show_default="the one shipped with ESG",
        help="Catalog of functions, applications and cluster.",
    ),
]


def read_catalog(path: Path | None) -> "Catalog":
    """The catalog in a file, or the one shipped with ESG."""
    from esg.core.catalog.file import DEFAULT, load_catalog  # needs an extra; the option does not

    if path is None:
        return load_catalog(DEFAULT)
    try:
        path.stat()
    except OSError as error:
        reason = "no such file" if isinstance(error, FileNotFoundError) else error.strerror
        raise Rejected(
            f"{path}: {reason}; correct --catalog (or ESG_CATALOG), or leave it out"
        ) from None
    return load_catalog(path)
