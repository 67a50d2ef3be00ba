"""How a share is shown to people, wherever that is."""


def shown_percent(share: float) -> float:
    """A share in percent, to be shown with one decimal: only a perfect one is shown as 100.

    >>> [f"{shown_percent(share):.1f}" for share in (1, 0.99995, 0.9994, 0.25)]
    ['100.0', '99.9', '99.9', '25.0']
    """
    return 100 * share if share >= 1 else min(100 * share, 99.9)
