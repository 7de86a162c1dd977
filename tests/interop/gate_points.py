"""What e3nn's ``gate_points`` networks import from libraries that are not needed here."""

from __future__ import annotations

from collections.abc import Callable
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

import torch
from torch import Tensor


def scatter(src: Tensor, index: Tensor, dim: int = 0, dim_size: int | None = None) -> Tensor:
    """Sum rows, as ``torch_scatter.scatter`` along the first axis."""
    size = int(index.max()) + 1 if dim_size is None else dim_size
    return src.new_zeros(size, *src.shape[1:]).index_add(dim, index, src)


def radius_graph(x: Tensor, r: float, batch: Tensor, max_num_neighbors: int = 32) -> Tensor:
    """Find neighbours, as ``torch_cluster.radius_graph``."""
    near = (torch.cdist(x, x) < r) & (batch[:, None] == batch)
    return near.fill_diagonal_(False).nonzero().T


def stand_in_scatter(set_module: Callable[[str, Any], object]) -> None:
    """Pretend that both libraries are there.

    Parameters
    ----------
    set_module : callable
        Puts a module under its name into ``sys.modules``.
    """
    for name, function in (("torch_scatter", scatter), ("torch_cluster", radius_graph)):
        module = ModuleType(name)
        module.__spec__ = ModuleSpec(name, None)  # PyTorch Geometric asks whether there is one
        setattr(module, function.__name__, function)
        set_module(name, module)
