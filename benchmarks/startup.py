"""What it takes to start: `esg --help` and `import esg`, beside Python itself.

    python -m benchmarks.startup [--rounds 20] [--before BIN] [--json]

Every round starts each program once, one after the other, so that whatever else the machine does
meets them all. References are a Python that does nothing, and one that imports what no command line
of ours can do without. BIN is the `bin` folder of another installation, to compare with.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

from rich.console import Console
from rich.progress import track
from rich.table import Table

REFERENCE = "python -c 'import typer, rich'"


def programs(before: Path | None) -> dict[str, list[str]]:
    """What is started, by the name of its row."""
    here = Path(sys.executable).parent
    found = {
        "python -c pass": [sys.executable, "-c", "pass"],
        REFERENCE: [sys.executable, "-c", "import typer, rich"],
        "import esg": [sys.executable, "-c", "import esg"],
        "esg --help": [str(here / "esg"), "--help"],
        "esg submit --help": [str(here / "esg"), "submit", "--help"],
        "esg emulate --help": [str(here / "esg"), "emulate", "--help"],
    }
    if before is not None:
        for name in ("--help", "submit --help", "emulate --help"):
            found[f"before: esg {name}"] = [str(before / "esg"), *name.split()]
    return found


def measure(rounds: int, before: Path | None) -> list[dict[str, Any]]:
    """A row per program: the median, and its ratio to the reference's."""
    started = programs(before)
    times_s: dict[str, list[float]] = {name: [] for name in started}
    for number in track(range(rounds + 1), console=Console(stderr=True), transient=True):
        for name, command in started.items():
            began = perf_counter()
            subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
            if number:  # the first round finds cold caches
                times_s[name].append(perf_counter() - began)
    reference = median(times_s[REFERENCE])
    return [
        {
            "what": name,
            "median_ms": round(1000 * median(times), 1),
            "fastest_ms": round(1000 * min(times), 1),
            "to_reference": round(median(times) / reference, 2),
        }
        for name, times in times_s.items()
    ]


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.startup", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--rounds", type=int, default=20, help="starts of each")
    parser.add_argument(
        "--before",
        type=Path,
        metavar="BIN",
        help="the bin folder of another installation, to compare with",
    )
    parser.add_argument("--json", action="store_true", help="print raw numbers instead of tables")
    given = parser.parse_args()
    rows = measure(given.rounds, given.before)
    if given.json:
        print(json.dumps(rows, indent=2))
        return
    table = Table("program", title=f"Starting, {given.rounds} rounds")
    for heading in ("median ms", "fastest ms", "to reference"):
        table.add_column(heading, justify="right")
    for row in rows:
        table.add_row(*map(str, row.values()))
    Console().print(table)
    print(f"The reference is {REFERENCE}.")


if __name__ == "__main__":
    main()
