"""Policies that learn offline are trained before they run, or what they learnt is looked up.

`esg train` keeps what was learnt in a file, for a live controller.
"""

from pathlib import Path
from typing import Annotated

import typer

from esg.console.catalog import CatalogFile, read_catalog
from esg.console.conditions import all_different
from esg.console.formatting import counted
from esg.console.options import AsJson
from esg.console.terminal import print_json, print_line, terminal
from esg.console.training import train as learn
from esg.core.catalog.model import Catalog
from esg.core.catalog.on_kinds import on_its_cluster
from esg.core.messages.codec import digest
from esg.emulator.training.train import default_cache
from esg.errors import Rejected
from esg.files import written
from esg.runtime.trained_configs import learnt_text


def train(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The file to write.")],
    catalog: CatalogFile = None,
    as_json: AsJson = False,
) -> None:
    """Train policy aquatope, for controllers that run it.

    Bayesian optimisation finds the config of every stage offline, in some seconds per application;
    earlier results are cached. esg emulate and esg up do this by themselves. A controller elsewhere
    reads the file that its setting controller.trained names.

    \b
    Examples:
      esg train aquatope.json
      esg train aquatope.json --catalog my.toml
    """
    all_different({"FILE": file, "--catalog": catalog})
    known = on_its_cluster(read_catalog(catalog))
    _keep(file, learnt_text(learn(known, shown=not as_json)))
    if as_json:
        print_json({"file": str(file), "applications": list(known.applications)})
        return
    applications = counted(len(known.applications), "application")
    print_line(terminal(), f"written: {file} ({applications})")


def trained_file(catalog: Catalog, *, shown: bool) -> Path:
    """What was learnt, for a mesh that is about to start here: a file among what can be made
    again."""
    text = learnt_text(learn(catalog, shown=shown))
    file = default_cache() / f"trained-{digest(text)}.json"
    _keep(file, text)
    return file


def _keep(file: Path, text: str) -> None:
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with written(file) as opened:
            opened.write(text)
    except OSError as error:
        raise Rejected(
            f"{file}: {error.strerror}; name a file in a folder you can write to"
        ) from None
