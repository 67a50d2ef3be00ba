"""The option `--catalog`, and the catalog that it names."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from esg.core.catalog.shipped import SHIPPED, catalog_path
from esg.errors import Rejected

if TYPE_CHECKING:
    from esg.core.catalog.model import Catalog

CatalogFile = Annotated[
    Path | None,
    typer.Option(
        "--catalog",
        parser=catalog_path,
        metavar="FILE",
        envvar="ESG_CATALOG",
        show_default="the one shipped with ESG",
        help="Catalog of functions, applications and cluster: a file, or one of ESG's by its name "
        f"({', '.join(SHIPPED)}).",
    ),
]


def read_catalog(path: Path | None) -> "Catalog":
    """The catalog in a file, or one of those shipped with ESG."""
    from esg.core.catalog.file import load_catalog  # needs an extra; the option does not

    if path is None:
        return load_catalog()
    path = catalog_path(path)
    try:
        path.stat()
    except OSError as error:
        reason = "no such file" if isinstance(error, FileNotFoundError) else error.strerror
        raise Rejected(
            f"{path}: {reason}; correct --catalog (or ESG_CATALOG), or leave it out"
        ) from None
    return load_catalog(path)


def warn_of_deadlines(known: "Catalog", path: Path | None) -> None:
    """Say on stderr which applications can never be in time: nothing else would, before their
    requests are all refused."""
    for complaint in deadline_complaints(known, path):
        print(f"warning: {complaint}", file=sys.stderr)


def deadline_complaints(known: "Catalog", path: Path | None) -> list[str]:
    """What is wrong with the SLOs of a catalog, where, and what to do."""
    from esg.core.catalog.on_kinds import on_its_cluster

    source = "the catalog of ESG" if path is None else str(path)
    return [
        f"{source}: applications.{name}: {why}; give it a longer one"
        for name, why in on_its_cluster(known).unmeetable().items()
    ]
