"""The default mesh classifier with vectors that turn with the mesh, or with masked attention."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from bench.masked_attention import MeshAttention
from equigeo.mesh import (
    ClassifierConfig,
    PrimalDualClassifier,
    PrimalDualFieldConv,
    PrimalDualGraph,
    TriangleMesh,
)
from equigeo.mesh.models.readout import group_mean
from equigeo.reps import Irreps

Fields = tuple[Tensor, Tensor]
_EPS = 1e-4  # of the root mean square of vectors whose lengths are about one


class VectorBranch(nn.Module):
    r"""Vectors beside the scalars of a block, which learn their lengths and angles.

    With :math:`v' = \mathrm{conv}(x, v)` over the root mean square of its copies, scalars gain
    :math:`W\,\mathrm{BN}(v'_a \cdot v'_b)_{a \le b}`, on faces and on pairs.

    Parameters
    ----------
    channels : (int, int)
        Scalars on faces and on pairs.
    copies_in : (int, int)
        Vectors that arrive on faces and on pairs.
    copies : int
        Vectors that leave, on each, and vectors of each kind that the mesh contributes.

    Equivariance
    ------------
    Scalars and vectors of O(3) in and out.
    """

    def __init__(
        self, channels: tuple[int, int], copies_in: tuple[int, int], copies: int = 4
    ) -> None:
        super().__init__()
        on_faces, on_pairs = (
            Irreps(f"{scalars}x0e" + (f" + {vectors}x1o" if vectors else ""))
            for scalars, vectors in zip(channels, copies_in, strict=True)
        )
        vectors = Irreps(f"{copies}x1o")
        self.conv = PrimalDualFieldConv((on_faces, on_pairs), (vectors, vectors), vectors=copies)
        products = copies * (copies + 1) // 2
        self.read = nn.ModuleList(
            nn.Sequential(nn.BatchNorm1d(products), nn.Linear(products, width))
            for width in channels
        )

    def forward(self, graph: PrimalDualGraph, fields: Fields) -> tuple[PrimalDualGraph, Fields]:
        """Exchange the vectors, and add to the scalars of a graph.

        Parameters
        ----------
        graph : PrimalDualGraph
            With its surface, and scalars as features.
        fields : (Tensor, Tensor), (nodes, 3 copies)
            Vectors on faces and on pairs.

        Returns
        -------
        graph : PrimalDualGraph
            With other features.
        fields : (Tensor, Tensor), (nodes, 3 copies)
            New vectors.
        """
        scalars = graph.x_primal, graph.x_dual
        joint = [torch.cat(pair, 1) for pair in zip(scalars, fields, strict=True)]
        on_faces, on_pairs = (_normalised(v) for v in self.conv(graph, *joint))
        x_primal, x_dual = (
            x + read(_products(v)) if len(v) > 1 else x
            for x, read, v in zip(scalars, self.read, (on_faces, on_pairs), strict=True)
        )
        return graph.with_features(x_primal, x_dual), (on_faces, on_pairs)


class VectorClassifier(PrimalDualClassifier):
    """The classifier whose blocks before the pooling carry vectors.

    The first vectors are positions relative to the centre of gravity, over their root mean square,
    as in EMNN; normals and steps between faces are the convolution's own. Read out are scalars.

    Parameters
    ----------
    config : ClassifierConfig
        Of the rest, whose blocks before the first pooling get a branch each.
    copies : int
        Vectors on faces and on pairs.
    positions : bool
        Whether positions are vectors too.
    branches : int, optional
        How many blocks have one; by default all before the first pooling.

    Equivariance
    ------------
    As the classifier: logits are invariant.
    """

    def __init__(
        self,
        config: ClassifierConfig,
        *,
        copies: int = 4,
        positions: bool = True,
        branches: int | None = None,
    ) -> None:
        super().__init__(config)
        self.positions = positions
        self.branches = nn.ModuleList()
        before = (int(positions), 0)
        # A pooled graph has no surface to measure vectors on.
        pooled = [k for k, keep in enumerate(config.keep) if keep is not None]
        most = pooled[0] + 1 if pooled else len(config.keep)
        for block in self.blocks[: most if branches is None else min(branches, most)]:
            self.branches.append(VectorBranch(block.first.in_channels, before, copies))
            before = (copies, copies)

    def embed(self, shapes: PrimalDualGraph | TriangleMesh | Sequence[TriangleMesh]) -> Tensor:
        """Describe each mesh by one vector, with a branch beside each of the first blocks."""
        graph, vectors = self._standardized(self._as_graph(shapes)), []
        place = centred_positions(graph, graph.x_primal.dtype)
        fields = place[:, : 3 * int(self.positions)], graph.x_dual[:, :0]
        for k, block in enumerate(self.blocks):
            if k < len(self.branches):
                graph, fields = self.branches[k](graph, fields)
            graph, _ = block(graph, graph.x_primal, graph.x_dual)
            vectors.append(self.readout(graph))
        return torch.cat(vectors if self.config.every_block else vectors[-1:], dim=1)


class AttentionClassifier(PrimalDualClassifier):
    """The classifier with masked attention over the clusters behind its first pooling.

    Parameters
    ----------
    config : ClassifierConfig
        Of the rest.
    hops, tokens, blocks, heads
        Of :class:`bench.masked_attention.MeshAttention`.

    Raises
    ------
    ValueError
        If the configuration has no pooling.

    Equivariance
    ------------
    As the classifier: logits are invariant.
    """

    def __init__(
        self,
        config: ClassifierConfig,
        *,
        hops: tuple[int, ...] = (1, 2, 3),
        tokens: int = 4,
        blocks: int = 2,
        heads: int = 4,
    ) -> None:
        super().__init__(config)
        pooled = [k for k, keep in enumerate(config.keep) if keep is not None]
        if not pooled:
            raise ValueError("attention stands behind the first pooling, and there is none")
        self.behind = pooled[0]
        channels = self.blocks[self.behind].out_channels
        self.attention = MeshAttention(
            channels, hops=hops, tokens=tokens, blocks=blocks, heads=heads
        )

    def embed(self, shapes: PrimalDualGraph | TriangleMesh | Sequence[TriangleMesh]) -> Tensor:
        """Describe each mesh by one vector, with attention behind the first pooling."""
        graph, vectors = self._standardized(self._as_graph(shapes)), []
        for k, block in enumerate(self.blocks):
            graph, _ = block(graph, graph.x_primal, graph.x_dual)
            if k == self.behind:
                graph = self.attention(graph)
            vectors.append(self.readout(graph))
        return torch.cat(vectors if self.config.every_block else vectors[-1:], dim=1)


def centred_positions(graph: PrimalDualGraph, dtype: torch.dtype) -> Tensor:
    """Centroids of faces relative to that of their mesh, over their root mean square.

    Parameters
    ----------
    graph : PrimalDualGraph
        With its surface and areas.
    dtype : torch.dtype
        Of the result; measured in the dtype of the positions.

    Returns
    -------
    Tensor, (primal nodes, 3)
        Zero where all faces of a mesh are in one place.

    Raises
    ------
    ValueError
        If the graph was pooled.

    Equivariance
    ------------
    Vectors of O(3); unchanged by translation and scale.
    """
    surface, shares = graph.surface, graph.shares
    if surface is None or shares is None:
        raise ValueError("positions are measured on a surface, and a pooled graph has none")
    place = surface.vertices[surface.faces].mean(1)
    batch, size = graph.primal_batch, graph.num_graphs
    place = place - group_mean(place, batch, size, shares.primal)[batch]
    square = group_mean(place.square().sum(1, keepdim=True), batch, size, shares.primal)
    return (place / torch.where(square > 0, square, 1.0).sqrt()[batch]).to(dtype)


def _normalised(v: Tensor) -> Tensor:
    """Vectors (rows, 3 copies) over the root mean square of the lengths in their row."""
    copies = max(v.shape[1] // 3, 1)
    return v * (v.square().sum(1, keepdim=True) / copies + _EPS).rsqrt()


def _products(v: Tensor) -> Tensor:
    """Scalar products of all pairs of the vectors in a row, each with itself included."""
    copies = v.unflatten(1, (-1, 3))
    first, second = torch.triu_indices(copies.shape[1], copies.shape[1], device=v.device)
    return (copies[:, first] * copies[:, second]).sum(2)
