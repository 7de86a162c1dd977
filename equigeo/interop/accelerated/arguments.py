"""What the ops take, and small examples of it."""

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
    """Tell whether arguments are what the ops take: tensors of one floating dtype.

    The rest, autocast and tracing by ``torch.fx`` included, is left to the module as it was.
    """
    first = values[0]
    if not isinstance(first, Tensor) or not first.is_floating_point():
        return False
    for value in values:  # a generator takes longer, and every module asks in every call
        if not isinstance(value, Tensor) or value.dtype != first.dtype:
            return False
    return not (autocast_active() and autocasts(first.device.type))


def cheaply_readable(*values: Tensor) -> bool:
    """Tell whether to look at values costs little, which it does on the CPU only."""
    if not values_readable(values[0]) or transforms_active() or torch.jit.is_tracing():  # type: ignore[attr-defined]
        return False
    return all(type(value) is Tensor and value.device.type == "cpu" for value in values)


def random(*shape: int, like: Tensor, seed: int = 0) -> Tensor:
    """Draw from N(0, 1), with the dtype and device of another tensor and a generator of its own."""
    values = torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return values.to(like.device, like.dtype)


def random_graph(edges: int, device: torch.device) -> tuple[int, Tensor]:
    """Draw a graph in which edges are not sorted, and one node has a third of them.

    Returns
    -------
    int
        Number of nodes: three, or one for 64 edges, which is what interatomic potentials have.
    Tensor, (2, edges), int64
        Sources and targets.
    """
    nodes, generator = max(3, edges // 64), torch.Generator().manual_seed(0)
    index = torch.randint(nodes, (2, edges), generator=generator)
    index[1, ::3] = nodes - 1
    return nodes, index.to(device)
