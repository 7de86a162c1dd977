"""Kinds of dual graphs."""

from __future__ import annotations

from enum import Enum


class DualKind(Enum):
    """Nodes and edges of the dual graph: configurations A, B and C of PD-MeshNet.

    For adjacent faces ``i`` and ``j``, with other neighbours ``m`` of ``i`` and ``n`` of ``j``:

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
