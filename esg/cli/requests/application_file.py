"""Files of applications for a live mesh: the `[applications.NAME]` tables of a catalog."""

import tomllib
from pathlib import Path

from esg.core.catalog.application_table import ApplicationTable, application_table
from esg.core.catalog.toml_fields import TomlFields
from esg.errors import Rejected

OF_CATALOGS = ("extends", "cluster", "prices", "functions")
"""What else a catalog has. A mesh has its own, which stay as they are."""


def read_applications(path: Path) -> list[ApplicationTable]:
    """All applications of a file. Whether the mesh has their functions, it says itself."""
    try:
        content = tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise Rejected(
            f"{path}: cannot be read: {error.strerror}; name a file with [applications.NAME]"
        ) from None
    except (ValueError, RecursionError) as error:
        raise Rejected(f"{path}: not valid TOML: {error}") from None
    top = TomlFields(str(path), "", content)
    found = [application_table(name, fields) for name, fields in top.tables("applications")]
    for key in OF_CATALOGS:
        top.has(key)
    top.finish()
    return found
