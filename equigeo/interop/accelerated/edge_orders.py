"""Edges sorted by both of their ends, once for all layers of a model."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from equigeo.interop.accelerated.arguments import cheaply_readable

# Of a graph this large or larger the copy is felt in memory, and sorting not in time.
KEPT_EDGES = 2**16


class _Sorted(NamedTuple):
    """A graph, as it was when its edges were sorted, and their orders."""

    source: Tensor
    target: Tensor
    num_nodes: int
    orders: tuple[Tensor, ...]


_last: list[_Sorted] = []  # one at most; replaced as a whole, so that threads see all of it


def known_edge_orders(source: Tensor, target: Tensor, num_nodes: int) -> tuple[Tensor, ...]:
    """Sort edges as :func:`edge_orders` does, unless they are those of the call before.

    All convolutions of a model have one graph. To compare its values, which may have been changed
    in place, takes a tenth of the time of two sorts.

    Parameters
    ----------
    source, target, num_nodes
        As there.

    Returns
    -------
    tuple of Tensor, int64
        As there; not to be written to.

    Raises
    ------
    IndexError
        If an end is no node, where values can be read.

    Examples
    --------
    >>> ends = torch.tensor([0, 1, 2]), torch.tensor([2, 0, 2])
    >>> known_edge_orders(*ends, 3) is known_edge_orders(*ends, 3)
    True
    """
    if not cheaply_readable(source, target):
        return edge_orders(source, target, num_nodes)
    if source.shape[0] >= KEPT_EDGES:
        return _checked(edge_orders(source, target, num_nodes), num_nodes)
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


def edge_orders(source: Tensor, target: Tensor, num_nodes: int) -> tuple[Tensor, ...]:
    """Sort edges by target, and again by source.

    Unlike :class:`equigeo.graphs.EdgeIndex` this takes no decision on values, so that what is
    traced for one graph holds for all.

    Parameters
    ----------
    source, target : Tensor, (edges,), int64
        Ends of each edge; a negative source counts from the end, as where tensors are indexed.
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
    source = torch.where(source < 0, source + num_nodes, source)
    target, order = torch.sort(target, stable=True)
    source = source[order]
    by_source, back_order = torch.sort(source, stable=True)
    ptr, back_ptr = (torch.searchsorted(index, nodes) for index in (target, by_source))
    return source, ptr, order, target, back_order, back_ptr
