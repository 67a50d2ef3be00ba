"""Settings as a process is given them: from a TOML file, a table per service, and from the
environment, which wins.

`[gateway] port = 50051` and `ESG_GATEWAY_PORT=50051` say the same. Unknown keys are refused: a
misspelt one that is silently ignored costs an afternoon. Variables that a platform has set, for a
Service of Kubernetes that is called `esg` or `esg-gateway`, are ignored, and the log says so.
"""

import os
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, Field, fields
from pathlib import Path
from typing import Any, TypeVar

from esg.core.catalog.toml_fields import TomlFields
from esg.errors import Rejected
from esg.runtime.rpc.addresses import READY_FILE
from esg.runtime.settings import SECTIONS
from esg.suggest import closest, did_you_mean, shortened

T = TypeVar("T")
PREFIX = "ESG_"
FILE_VARIABLE = "ESG_SETTINGS"
CLIENT_VARIABLES = {
    "ESG_TOKEN",
    "ESG_CLIENT_CA",
    "ESG_CLIENT_CERTIFICATE",
    "ESG_CLIENT_KEY",
    "ESG_CLIENT_SERVER_NAME",
}
OTHER_VARIABLES = {FILE_VARIABLE, READY_FILE, "ESG_GATEWAY", "ESG_DIR", *CLIENT_VARIABLES}
"""Variables that are no setting of a service: clients and the command line have their own."""
SERVICE_LINKS = re.compile(
    r"ESG_(\w+_)?(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT_[0-9]+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)"
)
SERVICE_ADDRESS = re.compile(r"(tcp|udp|sctp)://.*")
"""What a variable ESG_PORT, or ESG_GATEWAY_PORT, has if it is a platform's."""


class Settings:
    """A settings file and an environment, read once and checked as a whole."""

    def __init__(self, environ: Mapping[str, str], file: Path | None = None) -> None:
        if file is None and environ.get(FILE_VARIABLE):
            file = Path(environ[FILE_VARIABLE])
        self.ignored = sorted(name for name in environ if is_service_link(name, environ[name]))
        """Variables that a platform has set, not a person."""
        self._environ = {n: v for n, v in environ.items() if n not in self.ignored}
        self._tables = _read(file) if file is not None else {}
        settings = {variable(name, f) for name, kind in SECTIONS.items() for f in fields(kind)}
        known = sorted(settings | OTHER_VARIABLES)
        for name in self._environ:
            if name.startswith(PREFIX) and name not in known:
                raise Rejected(f"environment: {_unknown_variable(name, known)}")
        for kind in SECTIONS.values():
            self.of(kind)

    def says(self, section: str, name: str) -> bool:
        """Whether somebody chose this setting, if only its default."""
        known = _known(section, name)
        return variable(section, known) in self._environ or name in self._tables.get(section, {})

    def of(self, kind: type[T]) -> T:
        """The settings of one section."""
        section = next(name for name, known in SECTIONS.items() if known is kind)
        values: dict[str, Any] = {}
        for known in fields(kind):  # type: ignore[arg-type]
            key = variable(section, known)
            text = self._environ.get(key)
            if text is not None:
                raw = _parsed(key, known, text)
                values[known.name] = _checked(TomlFields("environment", "", {key: raw}), key, known)
            elif known.name in self._tables.get(section, {}):
                table = TomlFields(str(self._tables["file"]), section, self._tables[section])
                values[known.name] = _checked(table, known.name, known)
        return kind(**values)


def is_service_link(name: str, value: str) -> bool:
    """Whether a variable tells where a Service of Kubernetes is: every pod of its namespace has it.

    >>> is_service_link("ESG_SERVICE_HOST", "10.0.0.1"), is_service_link("ESG_PORT_80_TCP", "")
    (True, True)
    >>> is_service_link("ESG_PORT", "tcp://10.0.0.1:80"), is_service_link("ESG_GATEWAY_PORT", "80")
    (True, False)
    """
    if name.startswith(PREFIX) and name.endswith("_PORT") and SERVICE_ADDRESS.fullmatch(value):
        return True
    return SERVICE_LINKS.fullmatch(name) is not None


def _unknown_variable(name: str, known: Iterable[str]) -> str:
    """That no setting is called so, and which was probably meant: the prefix, which all have, makes
    no name like another."""
    close = closest(name.removeprefix(PREFIX), (one.removeprefix(PREFIX) for one in known))
    meant = "docs/settings.md lists them all" if close is None else f"did you mean {PREFIX}{close}?"
    return f"unknown variable {shortened(name)!r}; {meant}"


def service_settings() -> Settings:
    """What this process was given."""
    return Settings(os.environ)


def environment(section: str, values: Mapping[str, Any]) -> dict[str, str]:
    """The variables that give a child process these settings."""
    return {
        variable(section, _known(section, name)): _text(value) for name, value in values.items()
    }


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _known(section: str, name: str) -> Field[Any]:
    """A setting by its names."""
    if section not in SECTIONS:
        raise Rejected(f"settings: {did_you_mean('section', section, SECTIONS)}")
    known = {f.name: f for f in fields(SECTIONS[section])}
    if name not in known:
        raise Rejected(f"settings: {section}: {did_you_mean('setting', name, known)}")
    return known[name]


def variable(section: str, known: Field[Any]) -> str:
    """The name of a setting in the environment."""
    middle = "" if section == "common" else f"{section}_"
    return f"{PREFIX}{middle}{known.name}".upper()


def _read(file: Path) -> dict[str, Any]:
    try:
        tables = tomllib.loads(file.read_text("utf-8"))
    except OSError as error:
        raise Rejected(
            f"{file}: cannot be read: {error.strerror}; correct --settings or {FILE_VARIABLE}"
        ) from None
    except (ValueError, RecursionError) as error:
        raise Rejected(f"{file}: not TOML: {error}") from None
    top = TomlFields(str(file), "", tables)
    for section, kind in SECTIONS.items():
        table = top.table(section, required=False)
        for known in fields(kind):
            table.has(known.name)
        table.finish()
    top.finish()
    return {**tables, "file": file}


def _parsed(key: str, known: Field[Any], text: str) -> Any:
    """The text of a variable as the type of its setting."""
    try:
        if known.type is bool:
            return {"true": True, "false": False, "1": True, "0": False}[text.lower()]
        return known.type(text) if known.type in (int, float) else text
    except (ValueError, KeyError):
        wanted = {bool: "true or false", int: "a whole number", float: "a number"}
        raise Rejected(
            f"environment: {key}: is {text!r}; it must be {wanted[known.type]}"  # type: ignore[index]
        ) from None


def _checked(table: TomlFields, key: str, known: Field[Any]) -> Any:
    assert known.default is not MISSING
    minimum, maximum = known.metadata["minimum"], known.metadata["maximum"]
    if known.type is bool:
        return table.flag(key)
    if known.type is int:
        return table.integer(key, minimum=0 if minimum is None else int(minimum), maximum=maximum)
    if known.type is float:
        return table.number(key, minimum=minimum, maximum=maximum)
    return table.text(key, empty=True)
