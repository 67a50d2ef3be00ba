"""Redaction of words for clients: without paths, addresses and names of sockets.

What went wrong inside the mesh is told by those who saw it, with where they saw it. Clients are
told the same without the places; the logs have them.
"""

import re

GAP = "…"

_PLACES = re.compile(
    r"""
      (?<![^\s'"(),;]) [^\s'"(),;/]* / (?: [^\s'"(),;]* [^\s'"(),;:] )?  # a path, a URL
    | \[ [0-9a-fA-F:.%]+ \] (?: : \d+ )?              # [::1]:50051
    | (?: [0-9a-fA-F]{0,4} : ){2,7} [0-9a-fA-F]{1,4}  # ::1
    | \b (?: ipv[46] | unix | dns ) : [^\s'"(),;]* [^\s'"(),;:]  # as gRPC names its peers
    | \b \d{1,3} (?: \. \d{1,3} ){3} (?: : \d+ )?     # 127.0.0.1:50051
    | (?<![\w.-]) [\w.-]+ : \d{2,5} \b               # gpu0.example.com:50051
    | (?<![\w.-]) [\w.-]+ \.sock \b                  # redis.sock
    """,
    re.VERBOSE,
)
"""Every alternative begins where a word does, so that long words take no longer than they are."""


def redacted(words: str) -> str:
    """The words with a gap where there was a path, an address or the name of a socket.

    >>> redacted("slice 127.0.0.1:38221 did not run deblur: CUDA error 700")
    'slice … did not run deblur: CUDA error 700'
    >>> redacted("Redis at /dev/shm/mesh/redis.sock: Connection closed by server")
    'Redis at …: Connection closed by server'
    """
    return _PLACES.sub(GAP, words)
