"""What may be chosen about a mesh on one machine, and the settings that follow from it.

What is left out (None) is as the environment and the settings file say, or else the settings' own
default; only the size of an emulated node has a default of its own here, the paper's 16 vCPUs and 7
slices.
"""

import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from esg.errors import Rejected
from esg.local.health import without_password
from esg.runtime.logs import check_logging
from esg.runtime.rpc.addresses import READY_FILE
from esg.runtime.settings import SECTIONS, CommonSettings, ControllerSettings, InvokerSettings
from esg.runtime.settings_file import CLIENT_VARIABLES, FILE_VARIABLE, Settings, environment
from esg.runtime.slice_setting import Addresses, Auto, Emulated, Gpu, Mig, parse_slices

VCPUS = 16
VGPUS = 7
MOST_NODES = 1_000
MOST_GATEWAYS = 100
"""More processes than that on one machine are a slip."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MeshOptions:
    """A mesh to start; the defaults disturb nobody: any free port, a Redis of its own."""

    nodes: int = 4
    nodes_per_process: int = 1
    """How many nodes share a process; more than one if their slices are emulated."""
    gateways: int = 1
    vcpus: int | None = None
    vgpus: int | None = None
    slices: str | None = None
    scale: float | None = None
    policy: str | None = None
    tasks: str | None = None
    host: str | None = None
    port: int | None = 0
    redis_url: str | None = None
    catalog: Path | None = None
    warm_start: bool | None = None
    payload_scale: float | None = None
    noise: float | None = None
    seed: int | None = None
    journal: bool | None = None
    resume: bool = False
    """Whether it goes on where the last mesh in its directory ended, and the next one can."""
    salvage: bool = False
    """Whether it goes on from a damaged journal without what came after the damage, this once."""
    secure: bool = False
    """Whether its services speak TLS, and its clients need a certificate and a token."""
    log_level: str | None = None
    settings_file: Path | None = None
    more: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Any other setting, as in `{"controller": {"prewarm": False}}`."""
    usual: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Settings in place of their own defaults: what anybody has chosen goes before them."""

    def document(self) -> dict[str, Any]:
        """As JSON has it."""
        values = asdict(self)
        return {name: str(v) if isinstance(v, Path) else v for name, v in values.items()}

    @staticmethod
    def read(document: Mapping[str, Any]) -> "MeshOptions":
        """The options that were written as text."""
        paths = {f.name for f in fields(MeshOptions) if f.type == Path | None}
        values: dict[str, Any] = {
            name: Path(v) if name in paths and v else v for name, v in document.items()
        }
        return MeshOptions(**values)


class Chosen:
    """Options, environment and settings file together: checked, and as variables for children."""

    def __init__(self, options: MeshOptions, environ: Mapping[str, str] | None = None) -> None:
        if not 1 <= options.nodes <= MOST_NODES:
            raise Rejected(f"nodes is {options.nodes}; it must be from 1 to {MOST_NODES}")
        if not 1 <= options.gateways <= MOST_GATEWAYS:
            raise Rejected(f"gateways is {options.gateways}; it must be from 1 to {MOST_GATEWAYS}")
        if options.nodes_per_process < 1:
            raise Rejected(f"nodes_per_process is {options.nodes_per_process}; it is 1 or more")
        if options.vgpus is not None and options.slices is not None:
            raise Rejected("vgpus are emulated slices; give either vgpus or slices, not both")
        self.nodes = options.nodes
        self.nodes_per_process = min(options.nodes_per_process, options.nodes)
        self.gateways = options.gateways
        self.environ = dict(os.environ if environ is None else environ)
        for name in (READY_FILE, *CLIENT_VARIABLES):
            self.environ.pop(name, None)
        self.secure = options.secure
        self.resume = options.resume
        self.salvage = options.salvage
        if self.salvage and not self.resume:
            raise Rejected("there is nothing to salvage for a mesh that begins anew; say --resume")
        if options.settings_file is not None:
            self.environ[FILE_VARIABLE] = str(options.settings_file.absolute())
        for section, values in options.more.items():
            self.environ |= environment(section, values)
        for section, values in _settings(options).items():
            self.environ |= environment(section, {n: v for n, v in values.items() if v is not None})
        self.settings = Settings(self.environ)
        chose_none = not self.settings.of(ControllerSettings).journal
        if self.resume and chose_none and self.settings.says("controller", "journal"):
            raise Rejected("there is no going on without a journal; resume, or have none, not both")
        check_logging(self.common.log_level, self.common.log_format)
        self._size_nodes()
        for section, values in options.usual.items():
            for name, value in values.items():
                self.set_default(section, name, value)

    def _size_nodes(self) -> None:
        """A machine's own cores are no measure for emulated nodes, but for others they are."""
        self.set_default("invoker", "slices", f"emulated:{VGPUS}")
        slices = self.settings.of(InvokerSettings).slices
        match parse_slices(slices):
            case Emulated():
                self.set_default("invoker", "vcpus", VCPUS)
            case _ if self.nodes_per_process > 1:
                raise Rejected(
                    f"only nodes with emulated slices can share a process; with the slices "
                    f"{slices}, leave nodes_per_process out"
                )
            case Mig() | Gpu() | Auto() | Addresses() if self.nodes > 1:
                raise Rejected(
                    f"{self.nodes} nodes cannot share the slices {slices}; say --nodes 1"
                )

    def set_default(self, section: str, name: str, value: Any) -> None:
        """What a setting is if nobody chose it."""
        if not self.settings.says(section, name):
            self.environ |= environment(section, {name: value})
            self.settings = Settings(self.environ)

    @property
    def common(self) -> CommonSettings:
        return self.settings.of(CommonSettings)

    def document(self) -> dict[str, dict[str, Any]]:
        """All settings, as far as they may be shown."""
        found = {name: asdict(self.settings.of(kind)) for name, kind in SECTIONS.items()}
        found["common"]["redis_url"] = without_password(found["common"]["redis_url"])
        return found


def _settings(options: MeshOptions) -> dict[str, dict[str, Any]]:
    return {
        "common": {
            "catalog": None if options.catalog is None else options.catalog.absolute(),
            "time_scale": options.scale,
            "redis_url": options.redis_url,
            "log_level": options.log_level,
        },
        "gateway": {"host": options.host, "port": options.port},
        "controller": {
            "policy": options.policy,
            "tasks": options.tasks,
            "journal": "" if options.journal is False else None,
        },
        "invoker": {
            "vcpus": options.vcpus,
            "slices": options.slices if options.vgpus is None else f"emulated:{options.vgpus}",
            "warm_start": options.warm_start,
            "payload_scale": options.payload_scale,
            "noise": options.noise,
            "seed": options.seed,
        },
    }
