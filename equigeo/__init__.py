"""Layers for 3D geometry in PyTorch, with symmetry declared and checked.

Every package below is imported when it is first used: ``equigeo.mesh``, ``equigeo.affine``, ...
:func:`kernels_info` tells which compiled kernels were found.

Examples
--------
>>> import equigeo
>>> equigeo.reps.Irreps("2x0e + 1o").dim
5
"""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules
from typing import Any

from equigeo._version import __version__

# Read off the folder, so that there is no second list to keep.
_PACKAGES = sorted(entry.name for entry in iter_modules(__path__) if entry.ispkg)

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
