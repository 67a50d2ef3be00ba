"""With this folder on the PYTHONPATH, `python -m esg.gateway` runs its gateway.py, and so on."""

import sys
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_file_location
from pathlib import Path
from typing import Any

SERVICES = ("controller", "gateway", "invoker")


class StandIns:
    """Finds the programs of the services here, and nothing else."""

    @staticmethod
    def find_spec(name: str, *_: Any) -> ModuleSpec | None:
        esg, _, service = name.removesuffix(".__main__").partition(".")
        if esg != "esg" or service not in SERVICES or not name.endswith(".__main__"):
            return None
        return spec_from_file_location(name, Path(__file__).with_name(f"{service}.py"))


sys.meta_path.insert(0, StandIns)  # type: ignore[arg-type]
