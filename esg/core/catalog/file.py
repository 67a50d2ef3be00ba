"""Catalogs and profiles as files: the one module of the core that reads any.

A catalog is a TOML file; `esg/profiles/catalog.toml` is the default. One that begins with

    extends = "default"

says only what is different: what it does not say of cluster and prices is as in the default, and
functions and applications are the default's and its own, which win if they have the same name.
Any of the catalogs in `shipped` can be extended like that.

Slices are all alike unless a catalog says what they are: see `slice_kinds`, and `kinds_table` for
how that is written.

Each function names a profile, relative to the file that names it, which holds either a model or a
measured table:

    function = "segmentation"
    [provenance]                      # free text: where the numbers come from
    [model]  with  [grid]             # parameters of a model: see `model_table`
    [measured]  table = "seg.csv"     # batch, vcpus, vgpus, time_ms; empty or "oom": does not fit
    slices = "1g.10gb"                # of which kind, where none is named; else the usual one

A measured table may also say how much of time_ms is spent on the slices (slices_ms) and how much
after that (after_ms); without, all of it counts as spent there. A row is about usual slices, unless
a column `kind` names others; what it says of kinds that the catalog does not know is left out.

A function may name a `folder` with a manifest, function.toml: what the catalog does not say about
it is taken from there, paths being relative to the folder. docs/functions.md has an example.

Every error names the file, the field and what to do about it. Unknown keys are refused, because a
misspelt key that is silently ignored costs an afternoon.
"""

import tomllib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from esg.core.catalog.application_table import application_table
from esg.core.catalog.cluster import Cluster
from esg.core.catalog.cluster_table import SIZE_OF_NODES_ALIKE, cluster_table, kinds_table
from esg.core.catalog.config import Config
from esg.core.catalog.cpu_use import CpuUse
from esg.core.catalog.measured_table import measured_table
from esg.core.catalog.model import Application, Catalog, Function, Stage
from esg.core.catalog.model_table import cpu_use, grid_table, model_table
from esg.core.catalog.phases import Phases
from esg.core.catalog.ports import PLAIN_INPUT, PLAIN_OUTPUT, declared_ports
from esg.core.catalog.profile import Prices, Profile
from esg.core.catalog.shipped import DEFAULT, SHIPPED
from esg.core.catalog.slice_kinds import ALL_ALIKE, USUAL, SliceKind, prices_by_kind
from esg.core.catalog.toml_fields import TomlFields
from esg.errors import Rejected
from esg.limits import LONGEST_PART_MS, MOST_MB, MOST_USD_PER_HOUR
from esg.units import ms

EXTENDS = "extends"
MANIFEST = "function.toml"


def load_catalog(path: Path = DEFAULT) -> Catalog:
    """Read and check a whole catalog, profiles included."""
    top = TomlFields(str(path), "", catalog_content(path))
    if not top.has(EXTENDS) and not top.has("cluster"):
        raise top.error(
            "cluster", f'is missing; add it, or make {EXTENDS} = "default" the first line'
        )
    price = top.table("prices", required=False)
    prices = Prices(
        vcpu_usd_per_hour=_price(price, "vcpu_usd_per_hour"),
        vgpu_usd_per_hour=_price(price, "vgpu_usd_per_hour"),
    )
    price.finish()
    nodes = top.table("cluster")
    kinds = kinds_table(nodes, top.table("kinds", required=False), prices)
    cluster = cluster_table(nodes, kinds)
    prices = replace(prices, kinds_usd_per_hour=prices_by_kind(kinds))
    functions = {
        name: _check_fits(_function(name, fields, path.parent, prices, kinds), cluster, kinds, top)
        for name, fields in top.tables("functions")
    }
    applications = {
        name: _application(name, fields, functions) for name, fields in top.tables("applications")
    }
    top.finish()
    return Catalog(
        functions=functions,
        applications=applications,
        cluster=cluster,
        prices=prices,
        kinds=kinds,
    )


def catalog_content(path: Path) -> dict[str, Any]:
    """What a catalog says, together with what it takes over from a shipped one; unchecked."""
    content = _content(path)
    if EXTENDS not in content:
        return content
    top = TomlFields(str(path), "", content)
    home = SHIPPED.get(str(content[EXTENDS]))
    if home is None:
        known = " or ".join(f'"{name}"' for name in SHIPPED)
        raise top.error(EXTENDS, f"must be {known}, which come with ESG; or leave it out")
    shipped = catalog_content(home)
    for function in shipped["functions"].values():
        for key in ("folder", "profile"):
            function[key] = str(home.parent / function[key])
    for key, table in shipped.items():
        if key != EXTENDS:
            top.table(key, required=False)  # refuses what is none
            content[key] = _inherited(key, table, content) | content.get(key, {})
    return content


def _inherited(key: str, table: dict[str, Any], content: dict[str, Any]) -> dict[str, Any]:
    """What a catalog takes over of a table, but for what its own words take the place of."""
    own = content.get("cluster", {})
    if key == "cluster" and "classes" in own:
        return {name: said for name, said in table.items() if name not in SIZE_OF_NODES_ALIKE}
    if key == "cluster" and not own.keys().isdisjoint(SIZE_OF_NODES_ALIKE):
        return {name: said for name, said in table.items() if name != "classes"}
    if key == "kinds":
        return {name: said for name, said in table.items() if name != own.get("kind")}
    return table


def load_profile(path: Path, prices: Prices, kinds: Mapping[str, SliceKind] = ALL_ALIKE) -> Profile:
    """Read one profile file, modelled or measured: what it says of these kinds of slices."""
    top = _read_toml(path)
    function = top.text("function")
    origin = top.table("provenance")
    provenance = "; ".join(f"{key}: {value}" for key, value in origin.texts().items())
    if top.has("model") == top.has("measured"):
        raise top.error("model", "a profile has either [model] or [measured]; keep one of them")
    if top.has("model"):
        grid = grid_table(top.table("grid"))
        model, spread = model_table(top.table("model"), grid)
        times_us, cpu = model.times_us(grid), model.cpu
    else:
        measured = top.table("measured")
        file = _file(measured, "table", path.parent)
        times_us = measured_table(file, _lines(file))
        spread = measured.number("relative_std", minimum=0, default=0.0)
        measured.finish()
        cpu = None
    of = top.text("slices", default="", empty=True)
    top.finish()
    try:
        times_us = _as_known(times_us, of, kinds)
        return Profile.of(
            function, times_us, prices, relative_std=spread, provenance=provenance, cpu=cpu
        )
    except Rejected as error:
        raise Rejected(f"{path}: {error}") from None


def _check_fits(
    function: Function, cluster: Cluster, kinds: Mapping[str, SliceKind], top: TomlFields
) -> Function:
    """Without the configs that no node can give; one that none can run would wait for ever. What it
    takes on slices that the cluster has not got stays: nodes may come that have them."""
    key, here = f"functions.{function.name}", cluster.kinds()
    able = [kind for kind in function.profile.kinds if kind in here]
    memory_mb = max((kinds[kind].memory_mb for kind in able), default=0)
    if not able:
        missing = ", ".join(kinds[kind].name or "usual slices" for kind in here)
        raise top.error(
            f"{key}.profile",
            f"says nothing of {missing}, which is all that the cluster has; measure it there with "
            "esg profile",
        )
    if function.memory_mb > memory_mb:
        raise top.error(
            f"{key}.memory_mb",
            f"is {function.memory_mb}, but a slice has {memory_mb}; "
            "use larger slices or a smaller model",
        )
    smallest = [function.profile.minimum_of(kind) for kind in able]
    if not any(cluster.runs(config) for config in smallest):
        raise top.error(
            f"{key}.profile",
            f"its smallest config, {smallest[0]}, is larger than a node; use larger nodes",
        )
    profile = function.profile.narrowed(
        lambda config: config.kind not in here or cluster.runs(config)
    )
    return replace(function, profile=profile)


def _price(fields: TomlFields, key: str) -> float:
    usual: float = getattr(Prices(), key)
    return fields.number(key, minimum=0, maximum=MOST_USD_PER_HOUR, default=usual)


def _function(
    name: str,
    fields: TomlFields,
    beside: Path,
    prices: Prices,
    kinds: Mapping[str, SliceKind],
) -> Function:
    """What the catalog says about a function, and for the rest what its folder's manifest does."""
    folder = _folder(fields, beside) if fields.has("folder") else None
    manifest = TomlFields("", "", {}) if folder is None else _read_toml(folder / MANIFEST)
    for key in ("description", "network"):
        manifest.text(key, default="", empty=True)

    def where(key: str) -> tuple[TomlFields, Path]:
        in_catalog, in_manifest = fields.has(key), manifest.has(key)
        if folder is None or in_catalog or not in_manifest:
            return fields, beside
        return manifest, folder

    function = Function(
        name=name,
        profile=_profile_of(name, *where("profile"), prices, kinds),
        cold_start_us=ms(
            where("cold_start_ms")[0].number("cold_start_ms", minimum=0, maximum=LONGEST_PART_MS)
        ),
        reload_us=_reload_us(*where("reload_ms")),
        input_bytes=round(
            where("input_mb")[0].number("input_mb", minimum=0, maximum=MOST_MB) * 1_000_000
        ),
        memory_mb=where("memory_mb")[0].integer("memory_mb", minimum=1),
        model=where("model")[0].text("model", default=name),
        handler=_handler(*where("handler")),
        cpu=cpu_use(where("cpu")[0], CpuUse.ACROSS_JOBS),
        folder="" if folder is None else str(folder),
        inputs=declared_ports(where("inputs")[0], "inputs", PLAIN_INPUT),
        outputs=declared_ports(where("outputs")[0], "outputs", PLAIN_OUTPUT),
    )
    fields.finish()
    manifest.finish()
    return function


def _reload_us(fields: TomlFields, beside: Path) -> int | None:
    if not fields.has("reload_ms"):
        return None
    return ms(fields.number("reload_ms", minimum=0, maximum=LONGEST_PART_MS))


def _profile_of(
    name: str,
    fields: TomlFields,
    beside: Path,
    prices: Prices,
    kinds: Mapping[str, SliceKind],
) -> Profile:
    path = _file(fields, "profile", beside)
    profile = load_profile(path, prices, kinds)
    if profile.function != name:
        raise fields.error(
            "profile",
            f"{path} is the profile of {profile.function!r}, not of {name!r}; name the right file",
        )
    return profile


def _folder(fields: TomlFields, beside: Path) -> Path:
    manifest = beside / fields.text("folder") / MANIFEST
    if not _is_file(manifest):
        raise fields.error("folder", f"no such file: {manifest}; write it or correct the folder")
    return manifest.parent.resolve()


def _file(fields: TomlFields, key: str, beside: Path) -> Path:
    path = beside / fields.text(key)
    if not _is_file(path):
        raise fields.error(key, f"no such file: {path}; write it or correct the name")
    return path


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # a name that no file can have
        return False


def _handler(fields: TomlFields, beside: Path) -> str:
    """The class of the CPU part: in a module, or in a file whose path is then made absolute."""
    handler = fields.text("handler", default="", empty=True)
    home, colon, name = handler.rpartition(":")
    is_file = home.endswith(".py")
    parts = [name] if is_file else [*home.split("."), name]
    if handler and not (colon and all(part.isidentifier() for part in parts)):
        raise fields.error(
            "handler", f"is {handler!r}; write it as 'module:Class' or 'file.py:Class'"
        )
    if not is_file:
        return handler
    file = beside / home
    if not _is_file(file):
        raise fields.error("handler", f"no such file: {file}; write it or correct the name")
    return f"{file.resolve()}:{name}"


def _application(name: str, fields: TomlFields, functions: dict[str, Function]) -> Application:
    told = application_table(name, fields, functions)
    try:
        return Application.of(
            name,
            [Stage(stage.name, functions[stage.function], stage.after) for stage in told.stages],
            slo_us=None if told.slo_ms is None else ms(told.slo_ms),
            slo_scale=1.0 if told.slo_scale is None else told.slo_scale,
            late_requests=told.late_requests,
        )
    except Rejected as error:
        raise fields.error("", str(error)) from None


def _as_known(
    times_us: Mapping[Config, Phases], of: str, kinds: Mapping[str, SliceKind]
) -> dict[Config, Phases]:
    """What a profile says of the kinds that a catalog knows, called as they are there. Where it
    names no kind, that is said of this one, or else of usual slices; and where those have no name,
    of them in any case."""
    usual = kinds[USUAL].name

    def kind_of(config: Config) -> str:
        if not usual and not config.kind:
            return USUAL
        said = config.kind or of or usual
        return USUAL if said == usual else said

    called = {config: config._replace(kind=kind_of(config)) for config in times_us}
    known = {called[c]: phases for c, phases in times_us.items() if called[c].kind in kinds}
    if not known:
        said = ", ".join(sorted({kind_of(config) for config in times_us}))
        here = ", ".join(kind.name for kind in kinds.values() if kind.name) or "no kind by name"
        raise Rejected(f"it is of slices {said}, and the catalog knows {here}")
    return known


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise Rejected(f"{path}: cannot be read: {_why(error)}") from None


def _read_toml(path: Path) -> TomlFields:
    return TomlFields(str(path), "", _content(path))


def _content(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            return tomllib.load(file)
    except FileNotFoundError:
        raise Rejected(f"{path}: no such file; write it or correct the name") from None
    except (OSError, UnicodeDecodeError) as error:
        raise Rejected(f"{path}: cannot be read: {_why(error)}") from None
    except (ValueError, RecursionError) as error:
        raise Rejected(f"{path}: not valid TOML: {error}") from None


def _why(error: OSError | UnicodeDecodeError) -> str:
    if isinstance(error, OSError):
        return error.strerror or str(error)
    return "it is not UTF-8 text"
