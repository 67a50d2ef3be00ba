"""What is not planned on a kind of slices, in words: why, and what to do about it."""

from esg.core.catalog.unplanned import Unplanned
from esg.runtime.slice_setting import measuring

MANY = 3


def unplanned_words(found: Unplanned) -> str:
    """
    >>> print(unplanned_words(Unplanned(kind="gpu-L4", unprofiled=("f",))))
    not planned: f on gpu-L4: no profile; measure with: esg profile --slices gpu --functions f
    >>> print(unplanned_words(Unplanned(kind="cpu-2", unprofiled=("depth",), nothing=True)))
    nothing is planned on cpu-2: no profile; measure with: esg profile --slices cpu:cpu-2
    """
    kind = found.kind or "usual slices"
    reasons = []
    if found.unprofiled:
        command = f"esg profile --slices {measuring(found.kind)}"
        if not found.nothing:
            command += f" --functions {','.join(found.unprofiled)}"
        reasons.append((found.unprofiled, f"no profile; measure with: {command}"))
    if found.too_large:
        reasons.append((found.too_large, "they have too little memory for it"))
    if found.nothing:
        return f"nothing is planned on {kind}: {'; '.join(why for _, why in reasons)}"
    return "not planned: " + "; ".join(
        f"{_listed(functions)} on {kind}: {why}" for functions, why in reasons
    )


def _listed(functions: tuple[str, ...]) -> str:
    if len(functions) <= MANY:
        return ", ".join(functions)
    return f"{', '.join(functions[:MANY])} and {len(functions) - MANY} more"
