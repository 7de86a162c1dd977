"""Checks of arguments for the ops, and small example arguments."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from equigeo.ops.runtime.autocast import autocasts
from equigeo.ops.runtime.torch_internals import (
    autocast_active,
    transforms_active,
    values_readable,
)


def fit(*values: Any) -> bool:
    """Return whether the ops support the arguments: tensors of one floating dtype, no autocast."""
    first = values[0]
    if not isinstance(first, Tensor) or not first.is_floating_point():
        return False
    for value in values:  # a generator takes longer, and every module asks in every call
        if not isinstance(value, Tensor) or value.dtype != first.dtype:
            return False
    return not (autocast_active() and autocasts(first.device.type))


def cheaply_readable(*values: Tensor) -> bool:
    """Return whether reading values is cheap: on the CPU only."""
    if not values_readable(values[0]) or transforms_active() or torch.jit.is_tracing():  # type: ignore[attr-defined]
        return False
    return all(type(value) is Tensor and value.device.type == "cpu" for value in values)


def random(*shape: int, like: Tensor, seed: int = 0) -> Tensor:
    """Sample from N(0, 1) like another tensor, with a separate generator."""
    values = torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return values.to(like.device, like.dtype)


def random_graph(edges: int, device: torch.device) -> tuple[int, Tensor]:
    """Return the number of nodes and unsorted edges (2, edges), a third of them at one node."""
    # 64 edges per node, as in interatomic potentials, and at least three nodes.
    nodes, generator = max(3, edges // 64), torch.Generator().manual_seed(0)
    index = torch.randint(nodes, (2, edges), generator=generator)
    index[1, ::3] = nodes - 1
    return nodes, index.to(device)
