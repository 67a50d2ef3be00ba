"""`esg emulate --grid FILE`: a parameter sweep, the product of the values that a TOML file lists.

    policy = ["esg", "apex"]         # compared at every point
    seeds = 3
    nodes = [8, 16]                  # with the next line, four points
    slo-scale = [0.8, 1.2]

Keys are the names of options, and their values are read and checked as those of the options are.
"""

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from itertools import product
from math import prod
from pathlib import Path
from typing import Any

import typer

from esg.cli.evaluation.emulate_options import EmulateOptions
from esg.console.arrivals import ArrivalOptions
from esg.errors import Rejected
from esg.suggest import did_you_mean, shortened

MOST_POINTS = 10_000
"""A slip of the finger must not ask for a month of work."""

LONGEST_REASON = 300

CATALOG = "catalog"
FILES = ("trace", "arrivals", CATALOG)
SAME_EVERYWHERE = ("policy", "seed", "seeds")
"""Options that are no dimension of a grid: at every point the same policies meet the same seeds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GridPoint:
    """A point of a grid: all options, and the values of those that vary, as the file has them."""

    options: EmulateOptions
    arrivals: ArrivalOptions
    catalog: Path | None
    varied: Mapping[str, object]

    @property
    def text(self) -> str:
        return ", ".join(f"{key} = {value}" for key, value in self.varied.items())


def read_grid(file: Path, base: GridPoint, context: typer.Context) -> list[GridPoint]:
    """The points of a grid, in the order of the file; what it does not say is as in `base`, which
    is the command line's."""
    grid = _Grid(file, context)
    values = {key: grid.values(key, given) for key, given in grid.content().items()}
    grid.check_said_once(values)
    count = prod(map(len, values.values()))
    if count > MOST_POINTS:
        raise Rejected(f"{file}: {count} points; ask for at most {MOST_POINTS}")
    return [_moved(base, dict(zip(values, at, strict=True))) for at in product(*values.values())]


@dataclass(frozen=True, slots=True)
class _Value:
    """A value of an option: its name among the fields of options, as the file has it, as it is
    used, and whether there are others in the grid."""

    field: str
    given: object
    used: Any
    varies: bool


def _moved(base: GridPoint, values: Mapping[str, _Value]) -> GridPoint:
    used = {value.field: value.used for value in values.values()}
    catalog = used.pop(CATALOG, base.catalog)
    of_arrivals = {field.name for field in fields(ArrivalOptions)} & set(used)
    arrivals = {name: used.pop(name) for name in sorted(of_arrivals)}
    return GridPoint(
        options=replace(base.options, **used),
        arrivals=replace(base.arrivals, **arrivals),
        catalog=catalog,
        varied={key: value.given for key, value in values.items() if value.varies},
    )


@dataclass(frozen=True, slots=True)
class _Grid:
    """A grid's file, and the command whose options it has."""

    file: Path
    context: typer.Context

    def content(self) -> dict[str, object]:
        try:
            return tomllib.loads(self.file.read_text("utf-8"))
        except OSError as error:
            raise Rejected(f"{self.file}: {error.strerror}; correct --grid") from None
        except (ValueError, RecursionError) as error:
            raise Rejected(f"{self.file}: is not TOML: {error}") from None

    def values(self, key: str, given: object) -> list[_Value]:
        """The values of a key, checked; one or several."""
        option, opposite = self._option(key)
        listed: list[Any] = given if isinstance(given, list) else [given]
        if not listed:
            raise self._refused(key, "has no value; name one, or leave the key out")
        if key == "policy" and all(isinstance(name, str) for name in listed):
            listed = [",".join(listed)]
        if key in SAME_EVERYWHERE and len(listed) > 1:
            raise self._refused(key, "has several values; seeds = N runs N seeds at every point")
        if any(value in listed[:number] for number, value in enumerate(listed)):
            raise self._refused(key, "has a value twice; name it once")
        return [
            _Value(option.name, value, self._used(key, option, value, opposite), len(listed) > 1)
            for value in listed
        ]

    def check_said_once(self, values: Mapping[str, list[_Value]]) -> None:
        """Refuse two keys for one option: warm-start and cold-start."""
        keys: dict[str, str] = {}
        for key, (first, *_) in values.items():
            if first.field in keys:
                raise self._refused(key, f"says the same as {keys[first.field]}; leave one out")
            keys[first.field] = key

    def _option(self, key: str) -> tuple[Any, bool]:
        """The option of this name, and whether it is the one that turns it off."""
        named = dict(self._options())
        if key not in named:
            raise Rejected(f"{self.file}: {did_you_mean('key', key, named)}")
        option, opposite = named[key]
        source = self.context.get_parameter_source(option.name)
        if source is not None and source.name == "COMMANDLINE":
            raise self._refused(key, f"{option.opts[0]} was given, too; give one of them")
        return option, opposite

    def _options(self) -> Iterator[tuple[str, tuple[Any, bool]]]:
        kinds = (EmulateOptions, ArrivalOptions)
        wanted = {CATALOG, *(field.name for kind in kinds for field in fields(kind))}
        for option in self.context.command.params:
            if option.name in wanted:
                for names, opposite in ((option.opts, False), (option.secondary_opts, True)):
                    for name in names:
                        yield name.removeprefix("--"), (option, opposite)

    def _used(self, key: str, option: Any, value: object, opposite: bool) -> Any:
        """The value as the command line would have it. It is read from its text, as there: 8.5 is
        no whole number."""
        if option.is_flag != isinstance(value, bool) or not isinstance(value, str | int | float):
            kinds = "true or false" if option.is_flag else "a number or a text"
            raise self._refused(key, f"{shortened(repr(value))} is not {kinds}")
        if isinstance(value, bool):
            return value != opposite
        try:
            used = option.process_value(self.context, str(value))
        except typer.TyperException as error:
            raise self._refused(key, " ".join(error.message.split()).rstrip(".")) from None
        except Rejected as error:
            raise self._refused(key, str(error)) from None
        return Path(used) if option.name in FILES else used

    def _refused(self, key: str, why: str) -> Rejected:
        return Rejected(f"{self.file}: {key}: {shortened(why, LONGEST_REASON)}")
