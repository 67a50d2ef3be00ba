"""Commands that take their options as dataclasses, one option for each field."""

from collections.abc import Callable
from dataclasses import fields, is_dataclass
from functools import wraps
from inspect import Parameter, Signature, signature
from typing import Any


def with_single_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The command as typer wants it: its parameters that are dataclasses give way to their fields.

    >>> from dataclasses import dataclass
    >>> @dataclass
    ... class Size:
    ...     width: int = 3
    ...     height: int = 4
    >>> def area(size: Size, times: int = 1) -> int:
    ...     return size.width * size.height * times
    >>> str(signature(with_single_options(area)))
    '(*, width: int = 3, height: int = 4, times: int = 1) -> int'
    >>> with_single_options(area)(width=5, height=4, times=2)
    40
    """
    groups: dict[str, type] = {}
    parameters: list[Parameter] = []
    of_command = signature(command)
    for parameter in of_command.parameters.values():
        kind = parameter.annotation
        if is_dataclass(kind) and isinstance(kind, type):
            groups[parameter.name] = kind
            parameters += signature(kind).parameters.values()
        else:
            parameters.append(parameter)

    @wraps(command)
    def called(**given: Any) -> Any:
        made = {
            name: kind(**{field.name: given.pop(field.name) for field in fields(kind)})
            for name, kind in groups.items()
        }
        return command(**made, **given)

    by_name = [parameter.replace(kind=Parameter.KEYWORD_ONLY) for parameter in parameters]
    called.__signature__ = Signature(  # type: ignore[attr-defined]
        by_name, return_annotation=of_command.return_annotation
    )
    return called
