"""Edges sorted by both of their ends, once for all layers of a model."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from equigeo.interop.accelerated.arguments import cheaply_readable

# Of a graph this large or larger the copy is felt in memory, and sorting not in time.
KEPT_EDGES = 2**16


class _Sorted(NamedTuple):
    """A copy of a sorted graph with its edge orders."""

    source: Tensor
    target: Tensor
    num_nodes: int
    orders: tuple[Tensor, ...]


_last: list[_Sorted] = []  # one at most; replaced as a whole, so that threads see all of it


def known_edge_orders(source: Tensor, target: Tensor, num_nodes: int) -> tuple[Tensor, ...]:
    """Return the result of :func:`edge_orders`, cached for the last graph; do not modify."""
    if not cheaply_readable(source, target):
        return edge_orders(source, target, num_nodes)
    if source.shape[0] >= KEPT_EDGES:
        return _checked(edge_orders(source, target, num_nodes), num_nodes)
    # All convolutions of a model share one graph, and comparing its values, which may change in
    # place, is about 10x faster than two sorts.
    for last in _last:
        if (
            last.num_nodes == num_nodes
            and torch.equal(last.source, source)
            and torch.equal(last.target, target)
        ):
            return last.orders
    with torch.inference_mode(False):  # what is kept may be needed for a gradient
        orders = _checked(edge_orders(source, target, num_nodes), num_nodes)
        _last[:] = [_Sorted(source.clone(), target.clone(), num_nodes, orders)]
    return orders


def _checked(orders: tuple[Tensor, ...], num_nodes: int) -> tuple[Tensor, ...]:
    """Validate the range of sorted ends."""
    sources, _, _, targets, back_order, _ = orders
    if len(targets):
        found = {
            "sources": (sources[back_order[0]], sources[back_order[-1]]),
            "targets": (targets[0], targets[-1]),
        }
        for name, (first, last) in found.items():
            if first < 0 or last >= num_nodes:
                raise IndexError(
                    f"{name} of edges must be in [0, {num_nodes}), got {int(first)} to {int(last)}"
                )
    return orders


def edge_orders(
    source: Tensor,  # (edges,), negative values count from the end
    target: Tensor,  # (edges,)
    num_nodes: int,  # number of sources and of targets
) -> tuple[Tensor, ...]:  # source, ptr, order, target, back_order, back_ptr
    """Sort edges by target and by source; return the index arguments of ``channelwise_conv``."""
    # Without decisions on values, unlike EdgeIndex, so that a trace holds for all graphs.
    nodes = torch.arange(num_nodes + 1, device=source.device)
    source = torch.where(source < 0, source + num_nodes, source)
    target, order = torch.sort(target, stable=True)
    source = source[order]
    by_source, back_order = torch.sort(source, stable=True)
    ptr, back_ptr = (torch.searchsorted(index, nodes) for index in (target, by_source))
    return source, ptr, order, target, back_order, back_ptr
