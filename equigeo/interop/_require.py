"""Imports of other libraries, at the moment they are needed."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import torch


def require(module: str, package: str) -> Any:
    """Import an optional library.

    Parameters
    ----------
    module : str
        What to import.
    package : str
        What to give to pip where it is missing.

    Returns
    -------
    module
        The library.

    Raises
    ------
    ImportError
        If it is missing or broken; says how to install it.

    Examples
    --------
    >>> require("nothing_of_this_name", "nothing")
    Traceback (most recent call last):
    ...
    ImportError: nothing_of_this_name cannot be imported: pip install nothing
    """
    try:
        return import_module(module)
    except ImportError as error:
        raise ImportError(f"{module} cannot be imported: pip install {package}") from error


def require_e3nn() -> Any:
    """Import ``e3nn.o3``.

    Returns
    -------
    module
        Of any supported version: 0.4.4 reads its tables with ``torch.load``, which refuses the
        slices in them unless they are declared safe.
    """
    with torch.serialization.safe_globals([slice]):
        return import_module("e3nn.o3")


def require_pyg() -> Any:
    """Import ``torch_geometric``, or say how to install it."""
    require("torch_geometric.data", "torch-geometric")
    return require("torch_geometric", "torch-geometric")
