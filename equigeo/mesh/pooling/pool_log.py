"""What a pooling step did, enough to undo it."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from equigeo.mesh.geometry.primal_dual_graph import PrimalDualGraph


@dataclass(frozen=True, eq=False)
class PoolLog:
    """The graph before pooling and where its nodes went.

    Parameters
    ----------
    graph : PrimalDualGraph
        Before pooling.
    cluster : Tensor, (primal nodes before,), int64
        Cluster of each primal node; clusters are numbered by their smallest member.
    dual_to_new : Tensor, (dual nodes before,), int64
        Dual node after pooling, or -1 if its two faces are now in one cluster.
    num_contracted : int
        Adjacencies that were contracted.
    num_refused : int
        Adjacencies within the quota that were kept because of a tie at the cut, a cap or the rule
        against consecutive contractions.
    """

    graph: PrimalDualGraph
    cluster: Tensor
    dual_to_new: Tensor
    num_contracted: int
    num_refused: int
