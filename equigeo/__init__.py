"""Layers for 3D geometry in PyTorch, with symmetry declared and checked.

The rooms ``groups``, ``reps``, ``ops``, ``graphs``, ``nn``, ``tensor_products``, ``mesh``,
``mds``, ``datasets`` and ``testing`` are imported when they are first used; ``interop``, which
meets other libraries, by name. :func:`kernels_info` tells which compiled kernels were found.

Examples
--------
>>> import equigeo
>>> equigeo.reps.Irreps("2x0e + 1o").dim
5
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

_ROOMS = (
    "datasets",
    "graphs",
    "groups",
    "mds",
    "mesh",
    "nn",
    "ops",
    "reps",
    "tensor_products",
    "testing",
)

__all__ = ["__version__", "kernels_info", *_ROOMS]


def __getattr__(name: str) -> Any:
    """Import a room on first use."""
    if name in _ROOMS:
        return import_module(f"equigeo.{name}")
    if name == "kernels_info":
        return import_module("equigeo.ops").kernels_info
    raise AttributeError(f"module 'equigeo' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
