"""Edges of the dual graph, from the primal graph alone."""

from __future__ import annotations

import torch
from torch import Tensor

from equigeo.graphs import EdgeIndex
from equigeo.mesh.geometry.dual_kind import DualKind


def primal_edges(undirected: Tensor, num_nodes: int) -> tuple[EdgeIndex, Tensor]:
    """Both directions of every undirected edge, sorted by target and then by source.

    Parameters
    ----------
    undirected : Tensor, (edges, 2), int64
        Lower node first, distinct rows.
    num_nodes : int
        Number of nodes.

    Returns
    -------
    edges : EdgeIndex, 2 * edges
        The directed edges.
    to_undirected : Tensor, (2 * edges,), int64
        Undirected edge of each directed edge.
    """
    # First all edges from lower to higher, then all reversed: the undirected edge is the position
    # modulo their number.
    source = torch.cat((undirected[:, 0], undirected[:, 1]))
    target = torch.cat((undirected[:, 1], undirected[:, 0]))
    order = torch.argsort(target * num_nodes + source)
    edge_index = torch.stack((source[order], target[order]))
    edges = EdgeIndex.from_valid_edges(edge_index, num_nodes, num_nodes)
    return edges, order % max(len(undirected), 1)


def edge_to_dual(kind: DualKind, edges: EdgeIndex, to_undirected: Tensor) -> Tensor:
    """Dual node whose features weigh each directed primal edge.

    Parameters
    ----------
    kind : DualKind
        The node of ``{i, j}``, or that of ``j -> i`` for the edge from ``j`` to ``i``: node
        ``2 u`` runs from the lower to the higher end of undirected edge ``u``.
    edges : EdgeIndex
        Directed primal edges.
    to_undirected : Tensor, (edges,), int64
        Their undirected edges.

    Returns
    -------
    Tensor, (edges,), int64
        Dual nodes.
    """
    if kind is DualKind.SINGLE:
        return to_undirected
    return 2 * to_undirected + (edges.source > edges.target).long()


def dual_edges(kind: DualKind, edges: EdgeIndex, to_dual: Tensor, undirected: Tensor) -> EdgeIndex:
    """Link the dual nodes that share a primal node.

    Parameters
    ----------
    kind : DualKind
        Which links exist, see :class:`DualKind`.
    edges : EdgeIndex
        Directed primal edges, sorted by target.
    to_dual : Tensor, (edges,), int64
        Dual node of each directed primal edge.
    undirected : Tensor, (undirected edges, 2), int64
        Ends of the undirected edges.

    Returns
    -------
    EdgeIndex
        Sorted by target; ``sum of d (d - 1)`` edges over primal degrees ``d``, twice as many for
        the double undirected kind. No node is linked to itself or to its own reversal.

    Examples
    --------
    >>> path = torch.tensor([[0, 1], [1, 2]])
    >>> edges, to_undirected = primal_edges(path, 3)
    >>> dual_edges(DualKind.SINGLE, edges, to_undirected, path).edge_index.tolist()
    [[1, 0], [0, 1]]
    """
    nodes = len(undirected) * kind.nodes_per_edge
    anchors = _anchors(kind, undirected)
    source, slot = _around(anchors.reshape(-1), edges.ptr, to_dual)
    if kind is DualKind.DOUBLE_UNDIRECTED:
        source ^= slot & 1  # beyond the head, walk away from it: reverse the node
    target = slot.div_(anchors.shape[1], rounding_mode="floor")
    kept = source != (target if kind is DualKind.SINGLE else target ^ 1)
    source, target = source[kept], target[kept]
    edge_index = undirected.new_empty(2, len(source))
    edge_index[0], edge_index[1] = source, target
    del source, slot, target, kept  # a million faces have six million links: free before sorting
    return EdgeIndex.from_valid_edges(edge_index, nodes, nodes)


def _around(anchor: Tensor, ptr: Tensor, to_dual: Tensor) -> tuple[Tensor, Tensor]:
    """Dual nodes of all edges that arrive at each anchor, and the position of that anchor."""
    # One slot per arriving edge: the j-th edge of anchor a is edge ptr[a] + j of the graph.
    degree = ptr.diff()[anchor]
    before = torch.cumsum(degree, 0)
    # Numbers of slots fit into 32 bits but for giants; half the memory takes half the time.
    largest = max(int(before[-1]) if len(before) else 0, len(to_dual))
    index = torch.int32 if largest < _FITS else torch.int64
    slot = torch.repeat_interleave(degree.to(index))
    position = torch.arange(len(slot), dtype=index, device=slot.device)
    position += (ptr[anchor] - (before - degree)).to(index).index_select(0, slot)
    return to_dual.to(index).index_select(0, position), slot


def _anchors(kind: DualKind, undirected: Tensor) -> Tensor:
    """Primal nodes through which messages reach each dual node, (dual nodes, 1 or 2)."""
    if kind is DualKind.SINGLE:
        return undirected
    both = torch.stack((undirected, undirected.flip(1)), dim=1).reshape(-1, 2)  # tail, head
    return both if kind is DualKind.DOUBLE_UNDIRECTED else both[:, :1]


_FITS = 2**31  # below it 32 bits are enough
