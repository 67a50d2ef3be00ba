"""The directory of a mesh on one machine: who runs in it, and what stays and goes when it ends.

    mesh.json      the record: processes, addresses, settings; there while a mesh runs
    mesh.log       what a mesh in the background has to say
    logs/NAME.log  those of its processes; all logs stay until the next mesh starts here
    mesh.journal/  stays too, and the one before it as mesh.journal.previous
    redis/         what Redis was given, for one that goes on from the journal (`resume`): written
                   all the time by a mesh that was told to, by any other one when it ends. If there
                   is no room for it then, it stays where it is, outside, and so does the record

One mesh at a time: its supervisor holds a lock on the directory itself, which the kernel releases
however that process ends. What a mesh that crashed left behind goes when the next one starts, or
with `esg down`. Data of the nodes, the socket of Redis and ready files are outside, in memory if
the system has a place for it: a full disk here keeps nothing from being started again.
"""

import json
import os
import secrets
import shutil
import signal
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from esg.errors import Rejected
from esg.files import lock_directory, memory_folder, written
from esg.local.procfs import alive, send

VARIABLE = "ESG_DIR"
Record = dict[str, Any]


def default_directory() -> Path:
    """Of this user, and gone after a reboot."""
    if os.environ.get(VARIABLE):
        return Path(os.environ[VARIABLE])
    if os.environ.get("XDG_RUNTIME_DIR"):
        return Path(os.environ["XDG_RUNTIME_DIR"]) / "esg"
    return Path(tempfile.gettempdir()) / f"esg-{os.getuid()}"


class RunDirectory:
    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        self.logs = self.path / "logs"
        self.log = self.path / "mesh.log"
        self.journal = self.path / "mesh.journal"
        self.redis = self.path / "redis"
        self.security = self.path / "security"
        self.scratch = self._scratch()
        self.run = self.scratch / "run"
        self.shared = self.scratch / "shared" if memory_folder() else None
        """For large data between processes, if it is in memory there."""
        self.not_kept = ""
        """Why what Redis was given is not here although its mesh has ended."""
        self._record = self.path / "mesh.json"
        self._lock: int | None = None

    def claim(self, *, resume: bool = False) -> None:
        """Make it ours, and ready for a new mesh, or for one that goes on from the last."""
        self.make_private()
        self._take_lock()
        try:
            self.clean(keep=resume, needed=resume)
        except BaseException:
            self._let_go()
            raise
        shutil.rmtree(self.logs, ignore_errors=True)
        self.logs.mkdir()
        self.store(self.run.name)
        if not resume:
            self._begin_anew()

    def _begin_anew(self) -> None:
        shutil.rmtree(self.redis, ignore_errors=True)  # without its journal it is of no use
        if self.journal.exists():
            previous = self.path / f"{self.journal.name}.previous"
            if previous.is_dir():
                shutil.rmtree(previous)
            else:
                previous.unlink(missing_ok=True)
            self.journal.rename(previous)

    def clear_up(self, *, keep: bool = True) -> None:
        """Remove what a mesh that crashed has left; its logs and its journal tell why."""
        self._take_lock()
        self.release(keep=keep)

    @property
    def left_behind(self) -> Path | None:
        """Where what Redis was given is still, once a mesh has ended that could not copy it."""
        record = self.read()
        data = None if record is None else Path(record["scratch"]) / self.redis.name
        return data if data is not None and self._wants(data) else None

    def _take_lock(self) -> None:
        self._lock = lock_directory(self.path)
        if self._lock is None:
            raise self.taken()

    def taken(self) -> Rejected:
        return Rejected(
            f"a mesh is running in {self.path}; stop it with esg down, or name another "
            f"directory with --dir or {VARIABLE}"
        )

    def store(self, name: str) -> Path:
        """A place for what is kept while the mesh is up."""
        self.scratch.mkdir(mode=0o700, exist_ok=True)
        folder = self.scratch / name
        folder.mkdir()
        return folder

    def log_of(self, process: str) -> Path:
        return self.logs / f"{process}.log"

    def write(self, record: Mapping[str, Any]) -> None:
        # The scratch folder is named here, so that a crash does not lose it
        with written(self._record) as file:
            json.dump({**record, "scratch": str(self.scratch)}, file, indent=2)

    def read(self) -> Record | None:
        """The record of a mesh that runs here, or that ended without a farewell.

        It says what to end and what to delete, so nobody else may have written it.
        """
        try:
            self._check_private()
            record: Record = json.loads(self._record.read_text("utf-8"))
            if not isinstance(record, dict) or not record.keys() >= {"supervisor", "processes"}:
                raise ValueError("it is no record of a mesh")
        except FileNotFoundError:
            return None
        except (OSError, ValueError, RecursionError) as error:
            raise Rejected(
                f"{self._record}: cannot be read: {error}; if no mesh runs there, delete it"
            ) from None
        return record

    def clean(self, *, keep: bool = True, needed: bool = False) -> None:
        """Remove all that a mesh leaves apart from logs, journal and, if anybody may want to go on
        with it, what Redis was given; end what it left running. What cannot be copied stays where
        it is, with the record that says where; if somebody needs it now, that is an error."""
        self.not_kept = ""
        record = self.read()
        if record is not None:
            for process in record["processes"]:
                send(process["pid"], process["began"], signal.SIGKILL)
            self._remove_scratch(Path(record["scratch"]), keep=keep)
        self._remove_scratch(self.scratch, keep=keep)
        if self.not_kept and needed:
            raise Rejected(
                f"{self.redis}: what the Redis of the last mesh was given cannot be copied "
                f"there: {self.not_kept}; make room for it, or start without --resume"
            )
        if not self.not_kept:
            self._record.unlink(missing_ok=True)

    def _remove_scratch(self, scratch: Path, *, keep: bool) -> None:
        data = scratch / self.redis.name
        if keep and self._wants(data):
            self._keep(data)
            if self.not_kept:
                _remove_all_but(data)
                return
        shutil.rmtree(scratch, ignore_errors=True)

    def _wants(self, data: Path) -> bool:
        """Whether this is the only copy of what somebody may want to go on with."""
        return data.is_dir() and self.journal.exists() and not self.redis.exists()

    def _keep(self, data: Path) -> None:
        """All of Redis' data or, if there is no room, none."""
        copy = self.path / f"{self.redis.name}.unfinished"
        shutil.rmtree(copy, ignore_errors=True)
        try:
            shutil.copytree(data, copy, ignore=shutil.ignore_patterns("*.sock"))
            copy.rename(self.redis)
        except OSError as error:
            self.not_kept = _why(error)
            shutil.rmtree(copy, ignore_errors=True)

    def release(self, *, keep: bool = True) -> None:
        """A mesh has ended: leave nothing behind, and let others in."""
        if self._lock is not None:
            self.clean(keep=keep)
            self._let_go()

    def _let_go(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def make_private(self) -> None:
        """Make it, for us alone."""
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._check_private()
        except OSError as error:
            raise Rejected(
                f"{self.path}: cannot be made: {error.strerror}; name another directory with --dir"
            ) from None

    def _check_private(self) -> None:
        status = self.path.stat()
        if status.st_uid != os.getuid() or status.st_mode & 0o077:
            raise Rejected(
                f"{self.path}: others may read it or own it; make it yours alone (chmod 700), or "
                "name another directory with --dir"
            )

    def _scratch(self) -> Path:
        name = f"esg-{os.getuid()}-{secrets.token_hex(6)}"
        memory = memory_folder()
        return self.path / "stores" if memory is None else memory / name


def _remove_all_but(kept: Path) -> None:
    """The stores of nodes, which are of no use to another mesh, take up memory."""
    for other in kept.parent.iterdir():
        if other != kept:
            shutil.rmtree(other, ignore_errors=True)


def _why(error: OSError) -> str:
    """In a few words; `copytree` gathers what went wrong, file by file."""
    if isinstance(error, shutil.Error) and error.args and error.args[0]:
        return str(error.args[0][0][-1])
    return error.strerror or str(error)


def running(record: Record | None) -> bool:
    """Whether the supervisor that wrote this is there."""
    if record is None:
        return False
    supervisor = record["supervisor"]
    return alive(supervisor["pid"], supervisor["began"]) is not None
