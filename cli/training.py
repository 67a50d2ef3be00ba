"""Policies that learn offline are trained before they run, or what they learnt is looked up.

`esg train` keeps what was learnt in a file, for a live controller.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cli.conditions import all_different
from cli.options import CatalogFile, read_catalog
from cli.progress import progress_bar
from cli.terminal import print_line, terminal
from cli.words import counted
from esg.errors import Rejected

if TYPE_CHECKING:
    from collections.abc import Collection

    from emulator.run import Trained
    from esg.catalog import Catalog

LEARNS = "aquatope"

TRAINING_SEED = 0
"""Whatever the seeds of the runs: what was learnt belongs to the policy, and a replay needs it."""


def trained_for(policies: Collection[str], catalog: Catalog, *, shown: bool) -> Trained:
    """What there is to learn of this catalog, the one that the policies will see."""
    if LEARNS not in policies:
        return {}

    from emulator.training import trained_configs
    from emulator.workers import usable_cores

    learnt = dict.fromkeys(catalog.applications, 0.0)
    with progress_bar(f"training {LEARNS}", len(learnt), shown=shown) as advance:

        def tell(application: str, done: int, total: int) -> None:
            learnt[application] = done / total
            advance(sum(learnt.values()))

        return trained_configs(catalog, seed=TRAINING_SEED, progress=tell, workers=usable_cores())


def train(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Where to keep it.")],
    catalog: CatalogFile = None,
) -> None:
    """Learn what policy aquatope needs, for controllers that run it.

    It learns the config of every stage offline, by Bayesian optimisation, in some seconds per
    application; what was learnt before is looked up. `esg emulate` and `esg up` do this by
    themselves. A controller elsewhere is told by controller.trained.

    \b
    Examples:
      esg train aquatope.json
      esg train aquatope.json --catalog my.toml
    """
    from mesh.learnt_file import learnt_text

    all_different({"FILE": file, "--catalog": catalog})
    known = read_catalog(catalog)
    _keep(file, learnt_text(trained_for([LEARNS], known, shown=True)))
    applications = counted(len(known.applications), "application")
    print_line(terminal(), f"written: {file} ({applications})")


def trained_file(catalog: Catalog, *, shown: bool) -> Path:
    """The same for a mesh that is about to start here: a file among what can be made again."""
    from emulator.training import default_cache
    from esg.codec import digest
    from mesh.learnt_file import learnt_text

    text = learnt_text(trained_for([LEARNS], catalog, shown=shown))
    file = default_cache() / f"trained-{digest(text)}.json"
    _keep(file, text)
    return file


def _keep(file: Path, text: str) -> None:
    from mesh.files import written

    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with written(file) as opened:
            opened.write(text)
    except OSError as error:
        raise Rejected(
            f"{file}: {error.strerror}; name a file in a folder you can write to"
        ) from None
