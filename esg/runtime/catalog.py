"""The catalog as the processes of a live mesh see it.

Every process reads the same file and multiplies its times by the same scale. Which applications
there are changes while a mesh runs; the functions, which invokers must know, do not: so it is
their digest (`functions_digest`) that two processes compare when they meet.
"""

from esg.core.catalog.file import load_catalog
from esg.core.catalog.model import Catalog, scaled
from esg.core.catalog.shipped import DEFAULT, catalog_path
from esg.runtime.settings import CommonSettings


def load(common: CommonSettings) -> Catalog:
    """The catalog that the settings name, or the default one, in the mesh's time."""
    path = catalog_path(common.catalog) if common.catalog else DEFAULT
    return scaled(load_catalog(path), common.time_scale)
