"""Names: what things may be called, and the marks that the mesh puts into names of its own.

    alice~photo@2/deblur    a queue: the owner, the application, its version, and the stage
    alice~r1/deblur         the key of an output in a store: the request and the stage
    alice~r1/@c0ffee        the key of its payload: in place of a stage, a mark and a content hash

| what           | chosen by         | may be                                              |
|----------------|-------------------|-----------------------------------------------------|
| request        | a client          | 1 to 100 letters, digits, and any of `- _ . :`      |
| application    | catalog, client   | printable, no `/` and no `@`; a client's has no `~` |
| stage          | catalog, client   | printable, no `/`, and no `@` at its beginning      |
| function       | catalog           | any text                                            |
| node           | settings          | printable                                           |
| client (owner) | `esg tokens`      | 1 to 32 of a-z, 0-9 and `-`, the first no dash      |

What clients choose has at most 100 characters, and any name that is heard of inside at most 300.
"""

import re
from functools import lru_cache

BETWEEN = "/"
"""Stands between an application and a stage, and between a request and a stage."""
VERSION_MARK = "@"
PAYLOAD_MARK = "@"
OWNER_MARK = "~"

LONGEST_CHOSEN = 100
"""Of what clients name."""
LONGEST = 300
"""Of any name inside, whoever chose it: an owner, marks and a version may be in it."""

PLAIN = re.compile(rf"[A-Za-z0-9_.:-]{{1,{LONGEST_CHOSEN}}}")
"""What a request may be called by its client, and what any file can be called."""
CLIENT = re.compile(r"[a-z0-9][a-z0-9-]{0,31}")


def is_printable(name: str) -> bool:
    """Whether there is a name, and it can be shown."""
    return bool(name) and name.isprintable()


def complaint(kind: str, name: str) -> str | None:
    """What is wrong with the name of an application or a stage, if anything is.

    >>> complaint("stage", "a/b")
    "stage 'a/b': a name has no slash and no control characters; change it"
    >>> complaint("stage", "@a")
    "stage '@a': a name does not begin with @, which marks payloads; change it"
    >>> complaint("stage", "a@b")
    """
    if len(name) > LONGEST:
        return f"{kind} {name[:40]!r}...: a name has at most {LONGEST} characters; shorten it"
    if not is_printable(name) or BETWEEN in name:
        return f"{kind} {name!r}: a name has no slash and no control characters; change it"
    if kind == "application" and VERSION_MARK in name:
        return f"{kind} {name!r}: a name has no @, which marks versions; change it"
    if name.startswith(PAYLOAD_MARK):
        return f"{kind} {name!r}: a name does not begin with @, which marks payloads; change it"
    return None


def node_names(count: int) -> list[str]:
    """The nodes of a mesh on one machine, and of an emulated one.

    >>> node_names(2), node_names(11)[-2:]
    (['node0', 'node1'], ['node09', 'node10'])
    """
    width = len(str(count - 1))
    return [f"node{number:0{width}}" for number in range(count)]


def versioned(name: str, version: int) -> str:
    """What the scheduler calls a version of an application; the first one has the plain name.

    >>> versioned("photo", 1), versioned("photo", 2)
    ('photo', 'photo@2')
    """
    return name if version == 1 else f"{name}{VERSION_MARK}{version}"


@lru_cache(maxsize=1024)
def plain_name(versioned_name: str) -> str:
    """What people call an application, whichever version it is.

    >>> plain_name("photo@2")
    'photo'
    """
    return versioned_name.partition(VERSION_MARK)[0]


@lru_cache(maxsize=65536)
def queue_name(application: str, stage: str) -> str:
    """The queue of a stage."""
    return f"{application}{BETWEEN}{stage}"


def payload_stage(content_hash: bytes) -> str:
    """Where other data of a request has its stage's name, its payload has that of its content.

    So a payload can be stored before anyone has agreed to the request: if the same id was used for
    something else, the two do not meet.

    >>> payload_stage(bytes.fromhex("c0ffee"))
    '@c0ffee'
    """
    return f"{PAYLOAD_MARK}{content_hash.hex()}"


def is_payload(stage: str) -> bool:
    """Whether a payload is stored under this name, and no stage's output."""
    return stage.startswith(PAYLOAD_MARK)
