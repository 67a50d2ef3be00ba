"""What was seen lately, in one number: the newest value counts most, and old ones fade away."""


def ewma(average: int, newest: int, of: int = 4) -> int:
    """An exponentially weighted moving average after one more value, which weighs one `of` so many
    parts; in whole numbers, so that it is the same everywhere.

    >>> ewma(100, 40), ewma(100, 40, of=2)
    (85, 70)
    """
    return (average * (of - 1) + newest) // of
