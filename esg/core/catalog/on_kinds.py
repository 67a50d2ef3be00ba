"""Catalogs as they are planned with, where slices are of these kinds and no others."""

from collections.abc import Iterable
from dataclasses import replace

from esg.core.catalog.model import Application, Catalog, Function


class OnKinds:
    """Narrows catalogs to the kinds of slices that there are. What was narrowed once is the same
    object the next time, so that what was built for it can be used again."""

    def __init__(self, kinds: Iterable[str]) -> None:
        self.kinds = frozenset(kinds)
        self._functions: dict[Function, Function] = {}
        self._applications: dict[Application, Application] = {}

    def of(self, catalog: Catalog) -> Catalog:
        """The catalog as it is planned with where slices are of these kinds. A function that could
        run on none of them stays as it is: it waits for nodes that have others."""
        # in new dictionaries, as another thread may be doing the same (`Scheduler.prepare`)
        known = self._functions
        functions = {
            function: known.get(function) or self._narrowed(function, catalog)
            for function in catalog.functions.values()
        }
        if all(narrowed is function for function, narrowed in functions.items()):
            return catalog
        made = self._applications
        applications = {
            application: made.get(application) or application.with_functions(functions.__getitem__)
            for application in catalog.applications.values()
        }
        self._functions, self._applications = functions, applications
        return replace(
            catalog,
            functions={name: functions[f] for name, f in catalog.functions.items()},
            applications={n: applications[a] for n, a in catalog.applications.items()},
        )

    def able(self, function: Function, catalog: Catalog) -> frozenset[str]:
        """On which of them the function could run: its profile knows them, and it fits."""
        known = catalog.kinds
        return frozenset(
            kind
            for kind in function.profile.kinds
            if kind in self.kinds and known[kind].memory_mb >= function.memory_mb
        )

    def _narrowed(self, function: Function, catalog: Catalog) -> Function:
        profile = function.profile.on_kinds(self.able(function, catalog))
        return function if profile is function.profile else replace(function, profile=profile)


def runs_nowhere(catalog: Catalog, function: Function, kinds: Iterable[str]) -> str:
    """Why a function can run on no slice of these kinds, and what to do."""
    here = sorted(kinds)
    names = ", ".join(catalog.kinds[k].name if k in catalog.kinds else k for k in here)
    only = f"there are only slices of {names}" if names else "there are only usual slices"
    if any(kind in function.profile.kinds for kind in here):
        return f"{function.name} needs {function.memory_mb} MB on a slice, and {only}, with less"
    unknown = f"no profile says what {function.name} takes here"
    return f"{unknown}: {only}; measure it there with esg profile"


def on_its_cluster(catalog: Catalog) -> Catalog:
    """A catalog without what it says of slices that its own cluster has not got."""
    return OnKinds(catalog.cluster.kinds()).of(catalog)
