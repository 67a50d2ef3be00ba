"""`docs/settings.md`, made from the settings themselves: `make settings`."""

from collections.abc import Iterator
from dataclasses import Field, fields
from typing import Any

from esg.runtime.setting_fields import NO_MAXIMUM
from esg.runtime.settings import SECTIONS
from esg.runtime.settings_file import FILE_VARIABLE, variable

TYPES = {bool: "true or false", int: "whole number", float: "number", str: "text"}

HEAD = f"""# Settings

<!-- Made from esg/runtime/settings.py by `make settings`; do not edit. -->

Every process of a mesh reads its settings from a TOML file, with a table per section
(`esg up --settings FILE`, or `{FILE_VARIABLE}` in the environment), and from the environment, which
wins. These two say the same:

```toml
[gateway]
port = 50051
```

```sh
ESG_GATEWAY_PORT=50051
```

A name that is not below is refused, in the file and (if it begins with `ESG_`) in the environment;
so is a value of the wrong type. Variables that Kubernetes sets for Services (`ESG_SERVICE_HOST`,
`ESG_PORT=tcp://...`) are ignored, with a warning in the log. What `esg up` is told on its command
line wins over both. It wires its processes itself: a node's name, store and port, and where others
find the controller, are its own to choose.
"""

OTHERS = f"""
## Other environment variables

| variable | meaning |
|---|---|
| `{FILE_VARIABLE}` | the settings file |
| `ESG_DIR` | the directory that `esg up`, `esg status` and `esg down` work in |
| `ESG_GATEWAY` | the gateway that commands such as `esg submit` call; or several, with commas |
| `ESG_TOKEN` | the token that clients such as `esg submit` and `loadgen` show to the gateway |
| `ESG_CLIENT_CA` | the authorities (PEM) that clients trust; with it they speak TLS |
| `ESG_CLIENT_CERTIFICATE`, `ESG_CLIENT_KEY` | shown to a gateway that asks for it |
| `ESG_CLIENT_SERVER_NAME` | the name in the gateway's certificate, if not its host |
| `ESG_READY_FILE` | a file that a process writes its address to when it serves |
"""


def document() -> str:
    """The whole page."""
    return HEAD + "".join(_section(name, kind) for name, kind in SECTIONS.items()) + OTHERS


def _section(name: str, kind: type[Any]) -> str:
    rows = "".join(_rows(name, kind))
    head = "| key | variable | type | default | meaning |\n|---|---|---|---|---|\n"
    return f"\n## `[{name}]`\n\n{kind.__doc__}\n\n{head}{rows}"


def _rows(section: str, kind: type[Any]) -> Iterator[str]:
    for known in fields(kind):
        name, help = variable(section, known), known.metadata["help"]
        cells = (f"`{known.name}`", f"`{name}`", _type(known), _default(known), help)
        yield f"| {' | '.join(cells)} |\n"


def _type(known: Field[Any]) -> str:
    minimum, maximum = known.metadata["minimum"], known.metadata["maximum"]
    wanted = TYPES[known.type]  # type: ignore[index]
    if minimum is None:
        return wanted
    if maximum < NO_MAXIMUM:
        return f"{wanted}, {minimum} to {maximum}"
    return f"{wanted}, at least {_number(minimum)}"


def _number(value: float) -> str:
    """With all its digits."""
    return str(int(value)) if value == int(value) else f"{value:g}"


def _default(known: Field[Any]) -> str:
    if known.default == "":
        return "empty"
    return f"`{str(known.default).lower() if known.type is bool else known.default}`"


if __name__ == "__main__":
    print(document(), end="")
