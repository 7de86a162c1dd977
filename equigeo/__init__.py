"""Layers for 3D geometry in PyTorch, with symmetry declared and checked.

Every package below is imported when it is first used: ``equigeo.mesh``, ``equigeo.affine``, ...
:func:`kernels_info` returns which compiled kernels were found.

Examples
--------
>>> import equigeo
>>> equigeo.reps.Irreps("2x0e + 1o").dim
5
"""

from __future__ import annotations

import os
from importlib import import_module

from equigeo._core.version import __version__

TYPE_CHECKING = False  # importing `typing` would take half of the time of this import
if TYPE_CHECKING:
    from typing import Any

# Read off the folder, so that there is no second list to keep.
_PACKAGES = sorted(
    entry.name
    for folder in __path__
    for entry in os.scandir(folder)
    if not entry.name.startswith("_") and os.path.exists(os.path.join(entry.path, "__init__.py"))
)

__all__ = ["__version__", "kernels_info", *_PACKAGES]


def __getattr__(name: str) -> Any:
    """Import a package on first use."""
    if name in _PACKAGES:
        return import_module(f"equigeo.{name}")
    if name == "kernels_info":
        return import_module("equigeo.ops").kernels_info
    raise AttributeError(f"module 'equigeo' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
