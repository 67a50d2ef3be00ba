"""Where the Triton server is that a node starts for its slices.

It is a `tritonserver` that was installed by somebody (NVIDIA's containers have one on the PATH), or
the one in the models' environment: a virtual environment which `make models`, or `esg models
install`, makes from requirements-models.lock. Models of the Python backend run in that environment,
apart from ours, because they need another numpy.
"""

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from esg.errors import Rejected

REPOSITORY = Path(__file__).parents[3]
REQUIREMENTS = Path(__file__).parent / "requirements-models.lock"
SERVER = "tritonserver"


@dataclass(frozen=True, slots=True)
class Triton:
    """A server's program, the variables it needs, and the files of its Python backend, which must
    be brought together in one directory; without any it finds its backends itself."""

    server: Path
    environ: Mapping[str, str] = field(default_factory=dict)
    python_backend: tuple[Path, ...] = ()


def default_home() -> Path:
    """Where the models' environment is made: in a checkout, or else in the user's data."""
    if (REPOSITORY / "pyproject.toml").is_file():
        return REPOSITORY / ".venv-models"
    data = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(data) / "esg" / "models"


def find_triton(named: str) -> Triton:
    """The one that is named (a program, or a models' environment), or else the one that is here."""
    if named:
        path = Path(named)
        if path.is_dir():
            return in_environment(path)
        if not os.access(path, os.X_OK):
            raise Rejected(
                f"invoker.triton: {named}: no such program; name a {SERVER}, or the directory "
                "that esg models install made"
            )
        return Triton(path.absolute())
    if (found := shutil.which(SERVER)) is not None:
        return Triton(Path(found))
    return in_environment(default_home())


def in_environment(home: Path) -> Triton:
    """The server in a models' environment."""
    packages = next((home / "lib").glob("python3.*/site-packages"), home)
    triton = packages / "pytriton" / "tritonserver"
    version = packages.parent.name.removeprefix("python")
    backend = (
        triton / "backends" / "python" / "libtriton_python.so",
        triton / "backends" / "python" / "triton_python_backend_utils.py",
        triton / "python_backend_stubs" / version / "triton_python_backend_stub",
    )
    server = triton / "bin" / SERVER
    missing = [file for file in (server, *backend) if not file.is_file()]
    if missing:
        where = "" if home == default_home() else f" --dir {home}"
        raise Rejected(
            f"no Triton server: there is no {SERVER} on the PATH, and no {missing[0]}; make the "
            f"models' environment with: esg models install{where} (or name a server with the "
            "setting invoker.triton)"
        )
    libraries = [packages / "nvidia_pytriton.libs", *_home_of_libpython(home)]
    return Triton(
        server,
        {
            # The first python3 on the PATH decides which environment models run in
            "PATH": f"{home.absolute() / 'bin'}:{os.environ.get('PATH', '')}",
            "LD_LIBRARY_PATH": ":".join(str(library.absolute()) for library in libraries),
        },
        backend,
    )


def _home_of_libpython(home: Path) -> list[Path]:
    """Beside the Python that the environment was made with; a system's own is found anyway."""
    for line in (home / "pyvenv.cfg").read_text("utf-8").splitlines():
        key, _, value = line.partition("=")
        if key.strip() == "home":
            return [Path(value.strip()).parent / "lib"]
    return []
