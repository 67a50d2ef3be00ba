"""Three kinds of wrong, and who is to blame for each."""


class Rejected(Exception):
    """The caller asked for what we will not do. The message says what, where and what to do."""


class Fault(Exception):
    """The world failed. Shells turn it into an event; the brains cope with events.

    Its message is for whoever runs the mesh, and may name addresses and paths. `public` is what
    clients are told instead.
    """

    public = "a part of the mesh did not answer; try again"


class Bug(Exception):
    """Our own books do not balance. What led there does not count, and is put aside; or else the
    process ends. The journal has the story."""
