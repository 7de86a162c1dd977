"""Choice between torch-cluster and the searches of this library."""

from __future__ import annotations

import os
from functools import cache
from importlib import import_module
from importlib.metadata import version
from types import ModuleType
from typing import Final

_VARIABLE: Final = "EQUIGEO_NEIGHBORS"
_CHOICES: Final = ("auto", "torch-cluster", "own")


def neighbor_backend() -> str:
    """Return ``"torch-cluster"`` and its version, or ``"equigeo"``.

    If installed, torch-cluster searches neighbors of points with up to three coordinates on the
    CPU; results are the same. ``EQUIGEO_NEIGHBORS``, read once, is ``auto`` (the default), ``own``,
    or ``torch-cluster``, which raises if it is not installed, and which samples farthest points,
    too, two to five times slower.

    Examples
    --------
    >>> neighbor_backend().split()[0] in ("torch-cluster", "equigeo")
    True
    """
    return "equigeo" if torch_cluster() is None else f"torch-cluster {version('torch-cluster')}"


def prefers_torch_cluster() -> bool:
    """Return whether torch-cluster is used even where this library is faster."""
    return os.environ.get(_VARIABLE) == "torch-cluster"


@cache
def torch_cluster() -> ModuleType | None:
    """Import torch-cluster if :func:`neighbor_backend` selects it, else return None."""
    choice = os.environ.get(_VARIABLE, "auto")
    if choice not in _CHOICES:
        raise ValueError(f"{_VARIABLE} must be one of {', '.join(_CHOICES)}, got {choice!r}")
    if choice == "own":
        return None
    try:
        return import_module("torch_cluster")
    except ModuleNotFoundError as error:
        if choice == "auto" and error.name == "torch_cluster":
            return None
        raise ImportError(
            f"{_VARIABLE} is {choice}, but {error.name} is not installed: "
            f"pip install --no-build-isolation torch-cluster, or set {_VARIABLE}=own"
        ) from error
    except (ImportError, OSError) as error:  # built for another PyTorch
        raise ImportError(
            f"torch-cluster is installed, but cannot be loaded ({error}): build it again with "
            f"pip install --no-build-isolation --force-reinstall torch-cluster, "
            f"or set {_VARIABLE}=own"
        ) from error
