"""The catalogs that come with ESG, by name: given wherever a catalog's file can be."""

from pathlib import Path

_PROFILES = Path(__file__).parents[2] / "profiles"
DEFAULT = _PROFILES / "catalog.toml"
CPU = "cpu"
"""For slices without a GPU."""
SHIPPED = {
    "default": DEFAULT,
    "measured-shapes": _PROFILES / "measured-shapes" / "catalog.toml",
    CPU: _PROFILES / "cpu" / "catalog.toml",
}


def catalog_path(given: str | Path) -> Path:
    """The catalog of this name, or the file itself; one that is called like a catalog of ours is
    "./default".

    >>> catalog_path("measured-shapes").parent.name, catalog_path("my.toml").name
    ('measured-shapes', 'my.toml')
    """
    return SHIPPED.get(str(given), Path(given))
