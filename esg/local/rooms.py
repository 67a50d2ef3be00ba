"""The secrets of a mesh in containers: a room for each service, with what that service needs.

    DIRECTORY/authority/    as in `esg.runtime.security.authority`, for whoever fills the rooms
    DIRECTORY/controller/   ca.pem controller.pem controller.key; likewise invoker, redis, observer
    DIRECTORY/gateway/      the same, and tokens.toml, of which there is no other
    DIRECTORY/client/       ca.pem, and token, with which whoever reads it is `me`

Each room is a volume, and a container is given its own and no other. What is good stays as it is,
so all of this may be done at every start. A room on another host is filled with what this one
gives: there the authority is not, and rooms are left alone.
"""

import os
import tarfile
from collections.abc import Iterable, Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import IO

from esg.errors import Rejected
from esg.files import written
from esg.local.secure import let_in
from esg.runtime.security.authority import make_certificates
from esg.suggest import did_you_mean

AUTHORITY = "authority"
CA, TOKENS, TOKEN = "ca.pem", "tokens.toml", "token"
ROOMS: Mapping[str, Sequence[str]] = {
    **{
        name: (CA, f"{name}.key", f"{name}.pem")
        for name in ("controller", "gateway", "invoker", "redis", "observer")
    },
    "client": (CA, TOKEN),
}
"""What is handed out to each; what else there is in a room stays there."""
LARGEST_BYTES = 2**20


class Rooms:
    """`groups` names the rooms of services that run as another user: their group may read there."""

    def __init__(self, directory: Path, groups: Mapping[str, int] | None = None) -> None:
        self._directory = directory
        self._groups = groups or {}
        for name in self._groups:
            self.room(name)

    def room(self, name: str) -> Path:
        if name not in ROOMS:
            raise Rejected(did_you_mean("service", name, ROOMS))
        return self._directory / name

    def fill(self, *, hosts: Sequence[str], days: int) -> bool:
        """Make what is missing or near its end, and hand it out; False if these rooms were filled
        from elsewhere."""
        if self._were_given():
            return False
        authority = self._directory / AUTHORITY
        make_certificates(authority, hosts=hosts, days=days, keep=True)
        for name, files in ROOMS.items():
            self._open(name)
            for file in files:
                if file != TOKEN:
                    self._put(name, file, (authority / file).read_text("utf-8"))
        tokens, token = self.room("gateway") / TOKENS, self.room("client") / TOKEN
        let_in(tokens, token)
        return True

    def give(self, name: str, out: IO[bytes]) -> None:
        """A room's contents, as an archive."""
        room = self.room(name)
        with tarfile.open(fileobj=out, mode="w|") as archive:
            for file in ROOMS[name]:
                try:
                    content = (room / file).read_bytes()
                except OSError as error:
                    raise Rejected(
                        f"{room / file}: {error.strerror}; docker compose up makes it, on the host "
                        "where the mesh began"
                    ) from None
                told = tarfile.TarInfo(file)
                told.size, told.mode = len(content), 0o600
                archive.addfile(told, BytesIO(content))

    def take(self, name: str, archive: IO[bytes]) -> None:
        """Fill a room with what another host gave."""
        if (self._directory / AUTHORITY / CA).exists():
            raise Rejected(
                "this host has an authority of its own, for a mesh of its own; to join another "
                "one, forget that first: docker compose down --volumes"
            )
        self._open(name)
        wanted = ROOMS[name]
        found = dict(_texts(archive, wanted))
        if lacking := [file for file in wanted if file not in found]:
            raise Rejected(
                f"{', '.join(lacking)}: not in what was given; on the host where the mesh began: "
                f"esg rooms give {name}"
            )
        for file in wanted:
            self._put(name, file, found[file])

    def _were_given(self) -> bool:
        if (self._directory / AUTHORITY / CA).exists():
            return False
        if not any((self._directory / name / CA).exists() for name in ROOMS):
            return False
        if (self.room("gateway") / TOKENS).exists():  # which no other host gives away
            raise Rejected(
                f"{self._directory / AUTHORITY}: the authority's key is gone, so that these "
                "certificates cannot be renewed; restore it, or remove all volumes (docker compose "
                "down --volumes) and begin anew"
            )
        return True

    def _open(self, name: str) -> None:
        room = self.room(name)
        room.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._hand_over(room, name, 0o700, 0o750)

    def _put(self, name: str, file: str, text: str) -> None:
        path = self.room(name) / file
        if not (path.exists() and path.read_text("utf-8") == text):
            with written(path, private=True) as out:
                out.write(text)
        self._hand_over(path, name, 0o600, 0o640)

    def _hand_over(self, path: Path, name: str, own: int, shared: int) -> None:
        """An owner may give a file to any group that he is in: nobody needs to be root for it."""
        group = self._groups.get(name)
        try:
            if group is not None:
                os.chown(path, -1, group)
            path.chmod(own if group is None else shared)
        except PermissionError:
            raise Rejected(
                f"{path}: cannot be handed over; whoever fills the rooms must own them, and be in "
                f"the group {group} (group_add in docker-compose.yml)"
            ) from None


def _texts(archive: IO[bytes], wanted: Iterable[str]) -> Iterable[tuple[str, str]]:
    """Files by their names; nothing is unpacked to a path that an archive names."""
    try:
        with tarfile.open(fileobj=archive, mode="r|") as members:
            for member in members:
                if member.name not in wanted or not member.isfile():
                    continue
                if member.size > LARGEST_BYTES:
                    raise Rejected(f"{member.name}: {member.size} bytes are no certificate")
                content = members.extractfile(member)
                assert content is not None, "it is a file"
                yield member.name, content.read().decode("utf-8")
    except (tarfile.TarError, UnicodeDecodeError) as error:
        raise Rejected(f"what was given is no archive of a room: {error}") from None
