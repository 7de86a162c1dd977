"""Edges of the dual graph, computed from the primal graph."""

from __future__ import annotations

from enum import Enum

import torch
from torch import Tensor

from equigeo.graphs import EdgeIndex
from equigeo.graphs.edge_index import stable_order


class DualKind(Enum):
    """Nodes and edges of the dual graph: configurations A, B and C of PD-MeshNet.

    For adjacent faces ``i`` and ``j``, with other neighbors ``m`` of ``i`` and ``n`` of ``j``:

    Attributes
    ----------
    SINGLE
        One dual node ``{i, j}`` per adjacency, linked both ways to ``{i, m}`` and ``{j, n}``.
    DOUBLE_UNDIRECTED
        Two dual nodes ``i->j`` and ``j->i``; ``m->i`` and ``i->j`` are linked both ways.
    DOUBLE_DIRECTED
        Two dual nodes; messages only flow from ``m->i`` to ``i->j``.

    Examples
    --------
    >>> DualKind("single").nodes_per_edge, DualKind.DOUBLE_DIRECTED.nodes_per_edge
    (1, 2)
    """

    SINGLE = "single"
    DOUBLE_UNDIRECTED = "double_undirected"
    DOUBLE_DIRECTED = "double_directed"

    @property
    def nodes_per_edge(self) -> int:
        """Dual nodes per undirected primal edge."""
        return 1 if self is DualKind.SINGLE else 2


def primal_edges(
    undirected: Tensor,  # (edges, 2): distinct rows, lower node first
    num_nodes: int,
) -> tuple[EdgeIndex, Tensor]:
    """Return both directions of each edge, sorted by target, and their undirected edges."""
    # First all edges from lower to higher, then all reversed: the undirected edge is the position
    # modulo their number.
    source = torch.cat((undirected[:, 0], undirected[:, 1]))
    target = torch.cat((undirected[:, 1], undirected[:, 0]))
    order = stable_order(source, num_nodes)
    order = order[stable_order(target[order], num_nodes)]
    edge_index = torch.stack((source[order], target[order]))
    edges = EdgeIndex.from_valid_edges(edge_index, num_nodes, num_nodes)
    return edges, order % max(len(undirected), 1)


def edge_to_dual(
    kind: DualKind,
    edges: EdgeIndex,
    to_undirected: Tensor,  # (edges,)
) -> Tensor:
    """Return the dual node of each directed primal edge, (edges,)."""
    if kind is DualKind.SINGLE:
        return to_undirected
    # Node 2 u runs from the lower to the higher end of undirected edge u.
    return 2 * to_undirected + (edges.source > edges.target).long()


def dual_edges(
    kind: DualKind,
    edges: EdgeIndex,
    to_dual: Tensor,  # (directed edges,) dual node of each directed primal edge
    undirected: Tensor,  # (undirected edges, 2)
) -> EdgeIndex:
    """Link the dual nodes that share a primal node, excluding self-loops and reversals."""
    # The sum of d (d - 1) links over primal degrees d, twice as many for DOUBLE_UNDIRECTED.
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
    """Return the dual nodes of all edges that arrive at each anchor, and the anchor's position."""
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
    """Return the primal nodes that pass messages to each dual node, (dual nodes, 1 or 2)."""
    if kind is DualKind.SINGLE:
        return undirected
    both = torch.stack((undirected, undirected.flip(1)), dim=1).reshape(-1, 2)  # tail, head
    return both if kind is DualKind.DOUBLE_UNDIRECTED else both[:, :1]


_FITS = 2**31  # below it 32 bits are enough
