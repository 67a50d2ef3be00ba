"""`esg demo`: a whole mesh at work, from its start to its end, in about a minute."""

from pathlib import Path
from typing import Annotated, NoReturn

import typer

from esg.cli.demo.findings import Demonstration
from esg.cli.demo.real import demonstrate_real, real_demo_document
from esg.cli.demo.real_findings import PHOTO, RealDemonstration
from esg.cli.demo.real_view import RealDemoView
from esg.cli.demo.run import demonstrate
from esg.cli.demo.view import DemoView, demo_document
from esg.cli.requests.connection import run_live
from esg.console.catalog import read_catalog
from esg.console.options import AsJson, above_zero, at_least
from esg.console.terminal import print_json, terminal
from esg.errors import Rejected
from esg.units import seconds as in_us
from esg.workload.arrivals import until
from esg.workload.mix import Mix
from esg.workload.rates import parse_rate, steady

LONGEST_S = 3600
SEED = 0


def demo(
    seconds: Annotated[
        float,
        typer.Option(metavar="S", callback=above_zero(LONGEST_S), help="How long the load lasts."),
    ] = 30.0,
    rate: Annotated[
        str,
        typer.Option(metavar="RATE", help="Rate of the load: heavy, normal, light, or as in 30/s."),
    ] = "light",
    nodes: Annotated[
        int,
        typer.Option(metavar="N", callback=at_least(1), help="Worker nodes: 4 can serve light."),
    ] = 4,
    real: Annotated[
        bool,
        typer.Option("--real", help="Send a photo through real models, on CPUs, instead."),
    ] = False,
    photo: Annotated[
        Path | None, typer.Option(metavar="FILE", help="With --real: the photo to send.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", show_default="esg-demo", help="With --real: where its outputs go."
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """See a mesh at work: start one, send a picture, replay load, take everything down.

    The processes, the scheduling and the data transfers are real; the models are emulated. They
    take the profiled times and answer with a digest of their inputs, so every result is checked
    byte for byte. The exit code is 0 if all of them are right.

    With --real the models are real, too: Triton servers on this machine's CPUs run them, and the
    outputs are pictures to look at. It needs esg models install.

    \b
    Examples:
      esg demo
      esg demo --real --photo holiday.jpg --out results
      esg demo --seconds 10 --rate 30/s --nodes 8
      esg demo --json | jq .load.slo_hit_rate
    """
    if real:
        _demo_real(photo, out or Path("esg-demo"), as_json=as_json)
    if photo is not None or out is not None:
        raise Rejected("--photo and --out are for real models; add --real")
    known = read_catalog(None)
    mix = Mix.uniform(list(known.applications))
    demonstration = Demonstration(
        catalog=known,
        nodes=nodes,
        rate=parse_rate(rate),
        seconds=seconds,
        arrivals=list(until(steady(rate, mix, SEED), in_us(seconds))),
    )
    screen = terminal()
    screen.quiet = as_json
    found = run_live(demonstrate(demonstration, DemoView(screen)))
    if as_json:
        print_json(demo_document(demonstration, found))
    raise typer.Exit(0 if found.all_right else 1)


def _demo_real(photo: Path | None, out: Path, *, as_json: bool) -> NoReturn:
    if photo is not None and not photo.is_file():
        raise Rejected(f"--photo: {photo}: no such file; name a picture")
    screen = terminal()
    screen.quiet = as_json
    seen = run_live(
        demonstrate_real(RealDemonstration(photo=photo or PHOTO, out=out), RealDemoView(screen))
    )
    if as_json:
        print_json(real_demo_document(seen))
    raise typer.Exit(0 if seen.all_right else 1)
