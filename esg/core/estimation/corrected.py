"""Corrected profiles: the catalog as it is planned with, after what tasks really took.

A correction belongs to one function, one batch size and one kind of slices. A batch size that has
none of its own is as far from its profile as the nearest one that has, the smaller of two: what
makes small batches slow makes others slow as well. Nothing follows for slices of another kind. SLOs
stay as they are, because they were promised.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

import numpy as np

from esg.core.catalog.model import Application, Catalog, Function
from esg.core.catalog.profile import Prices
from esg.core.catalog.slice_kinds import USUAL
from esg.core.messages.events import Correction
from esg.errors import Rejected
from esg.units import PPM


def pace_ppm_of(corrections: Sequence[Correction], batch: int, kind: str = USUAL) -> int:
    """What tasks of this batch size take on slices of this kind, in millionths of their profile.
    The corrections are of one function.

    >>> paces_ppm = {1: 1_200_000, 4: 1_050_000}
    >>> seen = [Correction(function="f", batch=b, pace_ppm=p) for b, p in paces_ppm.items()]
    >>> [pace_ppm_of(seen, batch) for batch in (1, 2, 3, 8)]
    [1200000, 1200000, 1050000, 1050000]
    >>> pace_ppm_of([], 1)
    1000000
    """
    able = [correction for correction in corrections if correction.kind == kind]
    if not able:
        return PPM
    return min(able, key=lambda c: (abs(c.batch - batch), c.batch)).pace_ppm


def corrected(catalog: Catalog, corrections: Sequence[Correction], before: Catalog) -> Catalog:
    """The catalog with these corrections.

    `before` is the one that was planned with until now: functions and applications that do not
    change are the same objects as there, so that what was built for them can be used again.
    """
    functions = {
        name: _kept(_corrected_function(function, corrections, catalog.prices), before)
        for name, function in catalog.functions.items()
    }
    applications = {
        name: _corrected_application(application, functions, before)
        for name, application in catalog.applications.items()
    }
    if all(functions[name] is function for name, function in catalog.functions.items()):
        return catalog
    return replace(catalog, functions=functions, applications=applications)


def _corrected_function(
    function: Function, corrections: Sequence[Correction], prices: Prices
) -> Function:
    own = [correction for correction in corrections if correction.function == function.name]
    if not own:
        return function
    with suppress(Rejected):  # longer or dearer than can be planned with: then as profiled
        profile = function.profile.stretched(
            lambda config: pace_ppm_of(own, config.batch, config.kind) / PPM, prices
        )
        return replace(function, profile=profile)
    return function


def _kept(function: Function, before: Catalog) -> Function:
    """The function that was there before, if it is just like this one."""
    known = before.functions.get(function.name)
    same = (
        known is not None
        and known.profile.configs == function.profile.configs
        and np.array_equal(known.profile.time_us, function.profile.time_us)
    )
    return known if known is not None and same else function


def _corrected_application(
    application: Application, functions: dict[str, Function], before: Catalog
) -> Application:
    known = before.applications.get(application.name)
    for found in (application, known):
        if (
            found is not None
            and found.series is application.series  # a version of the same shape
            and all(s.function is functions[s.function.name] for s in found.stages.values())
        ):
            return found
    return application.with_functions(lambda function: functions[function.name])
