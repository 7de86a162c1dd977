"""Arguments that are integers: of any library, and no flags."""

from __future__ import annotations

import types
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from functools import cache, wraps
from inspect import signature
from operator import index
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from equigeo._brief import shown

_Class = TypeVar("_Class", bound=type)


def checked_integer(
    name: str,  # argument name in messages
    value: Any,
    least: int | None = None,  # smallest valid value
) -> int:
    """Convert an integer of any library to int; raise for booleans and other numbers."""
    try:
        number = None if isinstance(value, bool) else index(value)
    except TypeError:
        number = None
    if number is None:
        raise TypeError(f"{name} must be an integer, got {shown(value)}")
    if least is not None and number < least:
        raise ValueError(f"{name} must be at least {least}, got {number}")
    return number


def takes_integers(cls: _Class) -> _Class:
    """Decorate a class: arguments of its constructor with hints of integers become int."""
    init = cls.__init__  # type: ignore[misc]
    names = list(signature(init).parameters)

    @wraps(init)
    def checked(*args: Any, **named: Any) -> None:
        given = converted(dict(zip(names, args, strict=False)), init)
        init(*given.values(), *args[len(names) :], **converted(named, init))

    cls.__init__ = checked  # type: ignore[misc]
    return cls


def convert_integers(
    options: Any,  # an instance of a frozen dataclass
) -> None:
    """Convert the fields with hints of integers to int, in place."""
    values = {field.name: getattr(options, field.name) for field in fields(options)}
    for name, value in converted(values, type(options)).items():
        object.__setattr__(options, name, value)


def converted(values: Mapping[str, Any], owner: Any) -> dict[str, Any]:
    """Convert those values for a function or class to int whose hints are of integers."""
    hints = _integer_hints(owner)
    return {
        name: _as_integers(name, value, hints[name]) if name in hints else value
        for name, value in values.items()
    }


@cache  # of a few constructors
def _integer_hints(owner: Any) -> dict[str, Any]:
    """Return the hints of integers, of sequences of them, and of either or None."""
    return {name: hint for name, hint in get_type_hints(owner).items() if _is_of_integers(hint)}


def _is_of_integers(hint: Any) -> bool:
    options = [option for option in options_of(hint) if option is not types.NoneType]
    if len(options) != 1 or options[0] is int:
        return options == [int]
    items = [item for item in get_args(options[0]) if item is not Ellipsis]
    return get_origin(options[0]) in (tuple, Sequence) and all(map(_is_of_integers, items))


def _as_integers(name: str, value: Any, hint: Any) -> Any:
    options = options_of(hint)
    if value is None and types.NoneType in options:
        return None
    kind = next(option for option in options if option is not types.NoneType)
    if kind is int:
        return checked_integer(name, value)
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise TypeError(f"{name} must be a sequence of integers, got {shown(value)}")
    return tuple(_as_integers(name, item, get_args(kind)[0]) for item in value)


def options_of(hint: Any) -> tuple[Any, ...]:
    """Return the alternatives of a union, or the hint itself."""
    return get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)
