"""What a network over meshes attends to and merges, in terms of the faces of its input."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from equigeo.graphs.inputs import check_shape
from equigeo.mesh.geometry.primal_dual_graph import PrimalDualGraph


@dataclass(frozen=True, eq=False, repr=False)
class Inspection:
    """A look inside a network, from :meth:`equigeo.mesh.PrimalDualClassifier.inspect`.

    Parameters
    ----------
    attention : tuple of Tensor, (faces,)
        Of every block down to the coarsest graph: the attention that the neighbours of a face pay
        to it in the last convolution, relative to 1 where all attend to all of theirs alike. After
        a pooling, that of the cluster of the face. See :func:`received_attention`.
    clusters : tuple of Tensor, (faces,), int64
        Of every pooling step: the cluster of a face.

    Examples
    --------
    >>> from equigeo.mesh import PrimalDualClassifier, TriangleMesh
    >>> mesh = TriangleMesh(torch.eye(4, 3), torch.tensor([[0, 1, 2], [0, 3, 1]]))
    >>> PrimalDualClassifier.preset("default", num_classes=3).inspect(mesh)
    Inspection(faces=2, blocks=4, clusters=[2])
    """

    attention: tuple[Tensor, ...]
    clusters: tuple[Tensor, ...]

    def __repr__(self) -> str:
        """Return the numbers of faces, blocks and clusters after each pooling."""
        counts = [int(level.max()) + 1 if len(level) else 0 for level in self.clusters]
        faces = len(self.attention[0]) if self.attention else 0
        return f"Inspection(faces={faces}, blocks={len(self.attention)}, clusters={counts})"


def received_attention(graph: PrimalDualGraph, attention: Tensor) -> Tensor:
    r"""Measure how much the neighbours of each face attend to it.

    With the weights :math:`\alpha_{i \leftarrow j}` of the message from :math:`j` to :math:`i`,
    averaged over heads, and :math:`d_i` neighbours of :math:`i`, it is

    .. math:: r_j = \sum_i \alpha_{i \leftarrow j} \Big/ \sum_i 1 / d_i .

    Parameters
    ----------
    graph : PrimalDualGraph
        The edges.
    attention : Tensor, (primal edges, heads)
        From :class:`equigeo.mesh.PrimalDualConv`: summing to one over the edges into each face.

    Returns
    -------
    Tensor, (primal nodes,)
        1 where every neighbour attends to all of its own alike, and for a face without any.

    Raises
    ------
    ValueError
        If there is not one row of weights for each edge.

    Equivariance
    ------------
    Permuting faces permutes results.

    Examples
    --------
    >>> from equigeo.mesh import DualKind
    >>> graph = PrimalDualGraph.from_adjacency(
    ...     torch.tensor([[0, 1], [1, 2]]), DualKind.SINGLE, torch.zeros(3, dtype=torch.int64), 1
    ... )
    >>> graph.primal.edge_index.tolist()  # 1 hears 0 and 2, who hear nobody else
    [[1, 0, 2, 1], [0, 1, 1, 2]]
    >>> received_attention(graph, torch.tensor([[1.0], [0.75], [0.25], [1.0]]))
    tensor([1.5000, 1.0000, 0.5000])
    """
    check_shape(attention, "attention", (graph.primal.num_edges, "heads"))
    source, target = graph.primal.edge_index
    zero = attention.new_zeros(graph.num_primal)
    number = torch.bincount(target, minlength=graph.num_primal).to(attention.dtype)
    received = zero.index_add(0, source, attention.mean(dim=1))
    even = zero.index_add(0, source, number.reciprocal()[target])
    return torch.where(even > 0, received / even, 1.0)
