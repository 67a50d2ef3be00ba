"""Whose applications and requests are whose: the owner is part of the name inside the mesh.

A client calls its application `photo`; inside it is `alice~photo`, everywhere: in queues, in the
journal, in what an operator sees. Another client's `photo` is another application, and nobody can
even ask about what is not their own. Names without an owner are everybody's: those of the catalog,
and all names where clients have no tokens.

    inside        alice sees    bob sees    without an owner one sees
    alice~photo   photo         nothing     alice~photo
    depth         depth         depth       depth
"""

from esg.names import OWNER_MARK


def owned(owner: str, name: str) -> str:
    """What the mesh calls it.

    >>> owned("alice", "photo"), owned("", "photo")
    ('alice~photo', 'photo')
    """
    return f"{owner}{OWNER_MARK}{name}" if owner else name


def owner_of(inside: str) -> str:
    """Whose it is, by what the mesh calls it; empty: nobody's in particular.

    >>> owner_of("alice~photo"), owner_of("depth")
    ('alice', '')
    """
    owner, mark, _ = inside.partition(OWNER_MARK)
    return owner if mark else ""


def seen(owner: str, inside: str) -> str | None:
    """What the owner calls it; None if it is not theirs to see.

    >>> seen("alice", "alice~photo"), seen("bob", "alice~photo"), seen("bob", "depth")
    ('photo', None, 'depth')
    >>> seen("", "alice~photo")
    'alice~photo'
    """
    if not owner:
        return inside
    whose, mark, name = inside.partition(OWNER_MARK)
    if not mark:
        return inside
    return name if whose == owner else None


def plainly(owner: str, text: str) -> str:
    """A message of the mesh in the owner's own words.

    >>> plainly("alice", "alice~photo takes 500 ms with the fastest configs")
    'photo takes 500 ms with the fastest configs'
    """
    return text.replace(f"{owner}{OWNER_MARK}", "") if owner else text
