"""TOML tables, read field by field, with errors a person can act on."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from esg.errors import Rejected
from esg.suggest import did_you_mean, shortened

_REQUIRED: Any = object()
MAX_CHOICE = 10_000
LONGEST_PROBLEM = 1_000


class TomlFields:
    """One table of a file: knows where it is, what it was asked for, and what is left over.

    >>> fields = TomlFields("demo.toml", "cluster", {"nodes": 0, "vgpu": 7})
    >>> fields.integer("nodes", minimum=1)
    Traceback (most recent call last):
    esg.errors.Rejected: demo.toml: cluster.nodes: is 0; it must be at least 1
    >>> fields.finish()
    Traceback (most recent call last):
    esg.errors.Rejected: demo.toml: cluster.vgpu: unknown key 'vgpu'; known: nodes
    """

    def __init__(self, source: str, path: str, content: Mapping[str, Any]) -> None:
        self._source = source
        self._path = path
        self._content = content
        self._asked: list[str] = []

    def error(self, key: str, problem: str) -> Rejected:
        where = ".".join(shortened(part) for part in (self._path, key) if part)
        problem = shortened(problem, LONGEST_PROBLEM)
        return Rejected(
            f"{self._source}: {where}: {problem}" if where else f"{self._source}: {problem}"
        )

    def has(self, key: str) -> bool:
        self._asked.append(key)
        return key in self._content

    def text(self, key: str, *, default: str = _REQUIRED, empty: bool = False) -> str:
        value = self._get(key, default)
        if not isinstance(value, str) or not (value or empty):
            raise self.error(
                key, f"is {_quoted(value)}; it must be a {'' if empty else 'non-empty '}text"
            )
        return value

    def flag(self, key: str) -> bool:
        value = self._get(key, _REQUIRED)
        if not isinstance(value, bool):
            raise self.error(key, f"is {_quoted(value)}; it must be true or false")
        return value

    def number(
        self,
        key: str,
        *,
        minimum: float | None = None,
        maximum: float = 1e12,
        above: float | None = None,
        default: float = _REQUIRED,
    ) -> float:
        value = self._get(key, default)
        # not math.isfinite(): a whole number may be too large for it
        if isinstance(value, bool) or not isinstance(value, int | float) or value != value:
            raise self.error(key, f"is {_quoted(value)}; it must be a number")
        if minimum is not None and value < minimum:
            raise self.error(key, f"is {_short(value)}; it must be at least {minimum}")
        if value > maximum:
            raise self.error(key, f"is {_short(value)}; it must be at most {maximum:g}")
        if above is not None and value <= above:
            raise self.error(key, f"is {_short(value)}; it must be greater than {above}")
        return float(value)

    def integer(
        self, key: str, *, minimum: int, maximum: int = 10**12, default: int = _REQUIRED
    ) -> int:
        value = self._get(key, default)
        if isinstance(value, bool) or not isinstance(value, int):
            raise self.error(key, f"is {_quoted(value)}; it must be a whole number")
        if value < minimum:
            raise self.error(key, f"is {_short(value)}; it must be at least {minimum}")
        if value > maximum:
            raise self.error(key, f"is {_short(value)}; it must be at most {maximum}")
        return value

    def integers(self, key: str) -> list[int]:
        values = self._get(key, _REQUIRED)
        if (
            not isinstance(values, list)
            or not values
            or any(isinstance(v, bool) or not isinstance(v, int) or v < 1 for v in values)
            or max(values) > MAX_CHOICE
            or len(set(values)) != len(values)
        ):
            raise self.error(key, f"must be a list of different numbers from 1 to {MAX_CHOICE}")
        return values

    def whole_numbers_of(self, key: str, *, minimum: int, maximum: int) -> list[int]:
        """A list of any whole numbers within these limits; it may be empty."""
        values = self._get(key, _REQUIRED)
        if not isinstance(values, list) or any(
            isinstance(v, bool) or not isinstance(v, int) or not minimum <= v <= maximum
            for v in values
        ):
            raise self.error(key, f"must be a list of whole numbers from {minimum} to {maximum}")
        return values

    def names(self, key: str, *, default: Sequence[str] = _REQUIRED) -> list[str]:
        values = self._get(key, default)
        if not isinstance(values, list | tuple) or any(
            not isinstance(v, str) or not v for v in values
        ):
            raise self.error(key, "must be a list of names")
        return list(values)

    def texts(self) -> dict[str, str]:
        """All of a table that holds free text."""
        for key in self._content:
            self.text(key)
        return dict(self._content)

    def whole_numbers(self) -> list[int]:
        """The keys of a table of values by number, in rising order."""
        for key in self._content:
            digits = key.isascii() and key.isdecimal() and len(key) <= len(str(MAX_CHOICE))
            if not (digits and key[0] != "0" and int(key) <= MAX_CHOICE):
                raise self.error(key, f"a key here is a whole number from 1 to {MAX_CHOICE}")
        return sorted(map(int, self._content))

    def table(self, key: str, *, required: bool = True) -> "TomlFields":
        value = self._get(key, _REQUIRED if required else {})
        if not isinstance(value, dict):
            raise self.error(key, f"must be a table; write [{shortened(key)}]")
        return TomlFields(self._source, f"{self._path}.{key}" if self._path else key, value)

    def tables(self, key: str) -> Iterator[tuple[str, "TomlFields"]]:
        """The named tables below a key, at least one."""
        outer = self.table(key)
        if not outer._content:
            raise self.error(key, "is empty; define at least one")
        for name in outer._content:
            yield name, outer.table(name)

    def rows(self, key: str) -> Iterator["TomlFields"]:
        """The tables of a list, at least one."""
        value = self._get(key, _REQUIRED)
        if not isinstance(value, list) or not value or not all(isinstance(v, dict) for v in value):
            raise self.error(key, "must be a list of tables, at least one")
        for number, row in enumerate(value):
            yield TomlFields(self._source, f"{self._path}.{key}[{number}]", row)

    def names_in(self) -> list[str]:
        """All that a table of named things has; whoever asks for them looks at each."""
        self._asked += self._content
        return list(self._content)

    def finish(self) -> None:
        """Refuse the fields that were not asked for."""
        for key in self._content:
            if key not in self._asked:
                raise self.error(key, did_you_mean("key", key, dict.fromkeys(self._asked)))

    def _get(self, key: str, default: Any) -> Any:
        self._asked.append(key)
        if key in self._content:
            return self._content[key]
        if default is _REQUIRED:
            raise self.error(key, "is missing; add it")
        return default


def _quoted(value: Any) -> str:
    """A value of any type, as it would be written in the file.

    >>> _quoted("x"), len(_quoted("x" * 1000))
    ("'x'", 103)
    """
    return shortened(repr(value))


def _short(value: float) -> str:
    """A number for a message, however long it is."""
    text = str(value) if abs(value) < 10**300 or isinstance(value, float) else ""
    return text if 0 < len(text) < 25 else "a number of many digits"
