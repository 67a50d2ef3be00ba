"""Versions of an application: how the brains name them, and what people call them all."""

from functools import lru_cache


def versioned(name: str, version: int) -> str:
    """What the brains call a version of an application; the first one has the plain name.

    >>> versioned("photo", 1), versioned("photo", 2)
    ('photo', 'photo@2')
    """
    return name if version == 1 else f"{name}@{version}"


@lru_cache(maxsize=1024)
def plain_name(versioned_name: str) -> str:
    """What people call an application, whichever version it is.

    >>> plain_name("photo@2")
    'photo'
    """
    return versioned_name.partition("@")[0]
