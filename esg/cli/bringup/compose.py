"""`esg compose`: a Triton server for every MIG instance of this host, for docker compose."""

from pathlib import Path
from typing import Annotated

import typer

from esg.cli.bringup.compose_file import compose_file, without_model_file
from esg.console.catalog import CatalogFile, read_catalog
from esg.console.options import AsJson
from esg.console.terminal import print_json
from esg.files import written
from esg.invoker.slices.mig import find_instances


def compose(
    output: Annotated[
        Path,
        typer.Option(
            metavar="FILE",
            help="The file to write. docker compose finds the default by itself; another one needs "
            "-f.",
        ),
    ] = Path("docker-compose.override.yml"),
    catalog: CatalogFile = None,
    as_json: AsJson = False,
) -> None:
    """Write a Compose file with this host's MIG instances, to go with docker-compose.yml.

    They are found with NVML. Each gets a container with its own Triton server, and the invoker is
    told where they are. Run it again after repartitioning the GPUs; the file is replaced.

    \b
    Examples:
      esg compose && docker compose up --wait
      esg compose --output docker-compose.gpu.yml
    """
    known = read_catalog(catalog)
    instances = find_instances()
    functions = [function for function in known.functions.values() if function.folder]
    with written(output) as file:
        file.write(compose_file(instances, functions))
    if as_json:
        slices = [
            {"uuid": one.uuid, "name": one.name, "memory_mb": one.memory_mb} for one in instances
        ]
        print_json({"file": str(output), "slices": slices})
    else:
        print(f"{output}: {len(instances)} slices")
        for instance in instances:
            print(f"  {instance.uuid}  {instance.name}, {instance.memory_mb} MB")
    for function in without_model_file(functions):
        export = Path(function.folder) / "export.py"
        typer.echo(f"{function.name} has no model for GPUs yet; make it with: {export}", err=True)
