"""Imports of other libraries, at the moment they are needed."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import torch


def require(
    module: str,
    package: str,  # name for pip
) -> Any:
    """Import an optional library, or raise an error with the install command."""
    try:
        return import_module(module)
    except ImportError as error:
        raise ImportError(f"{module} cannot be imported: pip install {package}") from error


def require_e3nn() -> Any:
    """Import ``e3nn.o3`` of any supported version."""
    # Version 0.4.4 loads tables that contain slices with torch.load, which rejects them by default.
    with torch.serialization.safe_globals([slice]):
        return import_module("e3nn.o3")


def require_pyg() -> Any:
    """Import ``torch_geometric``, or raise an error with the install command."""
    require("torch_geometric.data", "torch-geometric")
    return require("torch_geometric", "torch-geometric")
