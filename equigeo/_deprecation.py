"""Old names of what was renamed: they work for one minor version, and say what to write instead."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from equigeo._version import __version__


@dataclass(frozen=True)
class Renamed:
    """What became of a name.

    Parameters
    ----------
    new : str
        The name in the same module.
    since : str
        Version that renamed it, such as ``"0.2"``; the next minor version drops the old name.
    """

    new: str
    since: str

    @property
    def removed_in(self) -> str:
        """The version that drops the old name."""
        major, minor = map(int, self.since.split(".")[:2])
        return f"{major}.{minor + 1}"

    @property
    def is_overdue(self) -> bool:
        """Whether this version should no longer have the old name."""
        version = tuple(map(int, __version__.split(".")[:2]))
        return version >= tuple(map(int, self.removed_in.split(".")))


RENAMED: Final[dict[str, Renamed]] = {}
"""All old names that still work, as ``module.name``."""


def renamed(module: str, names: Mapping[str, Renamed]) -> Callable[[str], Any]:
    """Make the ``__getattr__`` of a module, in which some names are old.

    Parameters
    ----------
    module : str
        Its ``__name__``.
    names : mapping of str to Renamed
        What the old names have become.

    Returns
    -------
    callable
        To be called ``__getattr__`` in the module.

    Examples
    --------
    In a module that called ``load_mesh`` otherwise before version 0.2::

        __getattr__ = renamed(__name__, {"read_mesh": Renamed("load_mesh", since="0.2")})
    """
    RENAMED.update({f"{module}.{old}": entry for old, entry in names.items()})

    def find(name: str) -> Any:
        entry = names.get(name)
        if entry is None:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        warnings.warn(
            f"{module}.{name} has been called {entry.new} since version {entry.since}; the old "
            f"name goes away in {entry.removed_in}",
            DeprecationWarning,
            stacklevel=2,
        )
        return getattr(sys.modules[module], entry.new)

    return find
