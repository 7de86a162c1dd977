"""The orders of edges that a convolution runs over, without a look at their values."""

from __future__ import annotations

import torch
from torch import Tensor


def edge_orders(source: Tensor, target: Tensor, num_nodes: int) -> tuple[Tensor, ...]:
    """Sort edges by target, and again by source.

    Unlike :class:`equigeo.graphs.EdgeIndex` this takes no decision on values, so that what is
    traced for one graph holds for all.

    Parameters
    ----------
    source, target : Tensor, (edges,), int64
        Ends of each edge.
    num_nodes : int
        Number of sources and of targets.

    Returns
    -------
    tuple of Tensor, int64
        ``source, ptr, order, target, back_order, back_ptr``, as
        :func:`equigeo.ops.channelwise_conv` takes them.

    Examples
    --------
    >>> _, ptr, order, *_ = edge_orders(torch.tensor([0, 1, 2]), torch.tensor([2, 0, 2]), 3)
    >>> order.tolist(), ptr.tolist()
    ([1, 0, 2], [0, 1, 1, 3])
    """
    nodes = torch.arange(num_nodes + 1, device=source.device)
    target, order = torch.sort(target, stable=True)
    source = source[order]
    by_source, back_order = torch.sort(source, stable=True)
    ptr, back_ptr = (torch.searchsorted(index, nodes) for index in (target, by_source))
    return source, ptr, order, target, back_order, back_ptr
