"""Deprecated names, which warn or name their replacement for one minor version."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from equigeo._core.version import __version__


@dataclass(frozen=True)
class Renamed:
    """New name of a renamed object."""

    new: str  # name in the same module
    since: str  # version of the change, such as "0.2"; the next minor version drops the old name
    private: Any = None  # the old object, which is private now; ``new`` says what replaces it
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
"""All old names that a module still knows, as ``module.name``."""


def renamed(
    module: str,  # __name__ of the module
    names: Mapping[str, Renamed],  # entries by old name
) -> Callable[[str], Any]:
    """Return a ``__getattr__`` for a module with deprecated names."""
    RENAMED.update({f"{module}.{old}": entry for old, entry in names.items()})

    def find(name: str) -> Any:
        entry = names.get(name)
        if entry is None:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        if entry.removed:
            raise AttributeError(
                f"{module}.{name} was removed in version {entry.since}: use {entry.new}"
            )
        change = "has been called" if entry.private is None else "is private, use"
        warnings.warn(
            f"{module}.{name} {change} {entry.new} since version {entry.since}; the old "
            f"name goes away in {entry.removed_in}",
            DeprecationWarning,
            stacklevel=2,
        )
        if entry.private is not None:
            return entry.private
        return getattr(sys.modules[module], entry.new)

    return find
