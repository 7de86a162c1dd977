"""Deprecated names, which warn or name their replacement for one minor version."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import wraps
from importlib import import_module
from inspect import signature
from typing import Any, Final, TypeVar

from equigeo._core.version import __version__

_Class = TypeVar("_Class", bound=type)


@dataclass(frozen=True)
class Renamed:
    """New name of a renamed object."""

    new: str  # name in the same module
    since: str  # version of the change, such as "0.2"; the next minor version drops the old name
    # the old object, which is private now, or "module:name"; ``new`` names its replacement
    private: Any = None
    removed: bool = False  # the old object is gone: access raises and names ``new``

    @property
    def removed_in(self) -> str:
        """Return the version that drops the old name."""
        major, minor = map(int, self.since.split(".")[:2])
        return f"{major}.{minor + 1}"

    @property
    def is_overdue(self) -> bool:
        """Return whether this version should have dropped the old name."""
        version = tuple(map(int, __version__.split(".")[:2]))
        return version >= tuple(map(int, self.removed_in.split(".")))


RENAMED: Final[dict[str, Renamed]] = {}
"""All old names that are still known, as ``module.name`` or ``module.Class(argument)``."""


def renamed(
    module: str,  # __name__ of the module
    names: Mapping[str, Renamed],  # entries by old name
) -> Callable[[str], Any]:
    """Return a ``__getattr__`` for a module with deprecated names, at its end."""
    RENAMED.update({f"{module}.{old}": entry for old, entry in names.items()})
    for old in names:  # which the module may have imported to name them here
        vars(sys.modules[module]).pop(old, None)

    def find(name: str) -> Any:
        entry = names.get(name)
        if entry is None:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        if entry.removed:
            # An import statement drops the text of an AttributeError, and asks by hasattr first.
            importing = sys._getframe(1).f_globals.get("__name__") == "importlib._bootstrap"
            raise (ImportError if importing else AttributeError)(
                f"{module}.{name} was removed in version {entry.since}: use {entry.new}"
            )
        change = "has been called" if entry.private is None else "is private, use"
        warnings.warn(
            f"{module}.{name} {change} {entry.new} since version {entry.since}; the old "
            f"name goes away in {entry.removed_in}",
            DeprecationWarning,
            stacklevel=2,
        )
        if isinstance(entry.private, str):
            place, _, old = entry.private.partition(":")
            return getattr(import_module(place), old)
        if entry.private is not None:
            return entry.private
        return getattr(sys.modules[module], entry.new)

    return find


def private_names(
    since: str,  # version of the change
    names: Mapping[str, tuple[str, str]],  # by name: its module, and what replaces it
) -> dict[str, Renamed]:
    """Return the entries of names that are private now; they are imported on access."""
    return {name: Renamed(new, since, f"{place}:{name}") for name, (place, new) in names.items()}


def moved_arguments(
    into: str,  # the argument that takes the configuration
    config: type,  # its type, a frozen dataclass with defaults
    *names: str,  # old keyword arguments, which are fields of the configuration now
    since: str = "0.3",
) -> Callable[[_Class], _Class]:
    """Decorate a class whose constructor got fewer arguments, so that it takes the old ones."""

    def decorate(cls: _Class) -> _Class:
        init = cls.__init__  # type: ignore[misc]
        entries = {name: Renamed(f"{into}={config.__name__}({name}=...)", since) for name in names}
        RENAMED.update({f"{cls.__module__}.{cls.__name__}({n})": e for n, e in entries.items()})

        @wraps(init)
        def accepting(*args: Any, **named: Any) -> None:
            old = {name: named.pop(name) for name in names if name in named}
            for name in old:
                warnings.warn(
                    f"the argument {name} of {cls.__name__} is {entries[name].new} since version "
                    f"{since}; the old one goes away in {entries[name].removed_in}",
                    DeprecationWarning,
                    stacklevel=2,
                )
            if old:
                given = signature(init).bind(*args, **named)
                changed = replace(given.arguments.get(into) or config(), **old)
                given.arguments[into] = changed
                args, named = given.args, given.kwargs
            init(*args, **named)

        cls.__init__ = accepting  # type: ignore[misc]
        return cls

    return decorate
