"""Validation of edge lists and offsets, as far as their values can be read."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from equigeo.graphs.inputs import kind_of
from equigeo.ops.runtime.torch_internals import values_readable

MOST_NODES = 2**32
"""Offsets of so many nodes take 32 GiB: a larger index is damaged data, and not a graph."""


def check_offsets(
    ptr: Tensor,  # (groups + 1,); values are not read during compilation
    rows: int,  # last offset
    of: str,  # name of the groups, for the message
) -> None:
    """Raise unless ``ptr`` holds the offsets of consecutive groups of rows."""
    if ptr.ndim != 1 or len(ptr) < 1:
        raise ValueError(f"ptr must be ({of} + 1,), got {tuple(ptr.shape)}")
    if not values_readable(ptr):
        return
    if bool(ptr[0] != 0) or bool(ptr[-1] != rows) or bool((ptr.diff() < 0).any()):
        raise ValueError(f"ptr must start at 0, never fall and end at {rows}")


def check_values(index: Tensor, name: str) -> None:
    """Raise for indices on the meta device, which have no values."""
    if index.is_meta:
        raise ValueError(f"{name} must have values to count nodes, got meta: give their numbers")


def check_size(size: Any, name: str) -> Any:
    """Validate a number of nodes and return it as an int of Python or PyTorch."""
    if not isinstance(size, (int, np.integer, torch.SymInt)):
        raise TypeError(f"{name} must be an integer, got {kind_of(size)}")
    if size < 0:
        raise ValueError(f"{name} must not be negative, got {size}")
    if size >= MOST_NODES:
        raise ValueError(f"{name} must be below 2^32, got {size}")
    return int(size) if isinstance(size, np.integer) else size


def check_range(index: Tensor, size: int, what: str) -> None:
    """Raise for indices outside [0, size), as far as values can be read."""
    if values_readable(index) and len(index) and (int(index.min()) < 0 or int(index.max()) >= size):
        raise ValueError(
            f"{what} must lie in [0, {size}), "
            f"got values from {int(index.min())} to {int(index.max())}"
        )
