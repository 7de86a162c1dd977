"""Kinds of dual graphs."""

from __future__ import annotations

from enum import Enum


class DualKind(Enum):
    """Nodes and edges of the dual graph (the configurations A, B and C of PD-MeshNet).

    A primal edge joins the adjacent faces ``i`` and ``j``; ``m`` runs over the other neighbours of
    ``i``, ``n`` over those of ``j``.

    Attributes
    ----------
    SINGLE
        One dual node per primal edge ``{i, j}``, linked both ways to ``{i, m}`` and ``{j, n}``.
    DOUBLE_UNDIRECTED
        Two dual nodes ``i->j`` and ``j->i``; ``m->i`` and ``i->j`` are linked both ways.
    DOUBLE_DIRECTED
        Two dual nodes; a message goes from ``m->i`` to ``i->j`` only.

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
