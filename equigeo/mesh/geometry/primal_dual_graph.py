"""The two graphs of a mesh: faces, and pairs of adjacent faces."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from equigeo._core.checks import as_indices, as_tensor, check_shape, kind_of
from equigeo._core.tensors import register_structure
from equigeo.graphs import EdgeIndex
from equigeo.graphs.edge_index import Shift
from equigeo.mesh.geometry.dual_graph import DualKind, dual_edges, edge_to_dual, primal_edges
from equigeo.mesh.geometry.features import AreaShares, FeatureSet, SizeName, compute_features
from equigeo.mesh.geometry.half_edges import edge_pairs
from equigeo.mesh.geometry.orient import Surface, orient
from equigeo.mesh.geometry.triangle_mesh import TriangleMesh, check_mesh


@dataclass(frozen=True, eq=False, repr=False)
class PrimalDualGraph:
    """Primal nodes are faces (later clusters of faces), dual nodes the adjacencies between them.

    Represents one mesh or a batch of meshes, pooled or not.

    Parameters
    ----------
    dual : DualKind
        Kind of the dual graph.
    x_primal : Tensor, (primal nodes, channels)
        Face features.
    x_dual : Tensor, (dual nodes, channels)
        Features of adjacent pairs.
    primal : EdgeIndex
        Both directions of every adjacency, sorted by target, then source.
    dual_edges : EdgeIndex
        Links between dual nodes.
    undirected : Tensor, (adjacencies, 2), int64
        Adjacent primal nodes, lower first, sorted; the row is the id of the adjacency.
    to_undirected, edge_to_dual : Tensor, (primal edges,), int64
        Adjacency and dual node of each directed primal edge.
    primal_batch, dual_batch : Tensor, int64
        Mesh of each node, ascending.
    num_graphs : int
        Number of meshes.
    features : {"invariant", "reference", "multiscale"}
        Kind of the node features.
    surface : Surface, optional
        Geometry of the nodes; None after pooling.
    shares : AreaShares, optional
        Area share of each node; None for :meth:`from_adjacency`.
    sizes : tuple of {"area", "volume", "length"}
        Sizes of the whole mesh whose logarithms are the last features of every face.
    inputs : tuple of str
        Inputs of the mesh that follow the features of every node.

    Examples
    --------
    >>> faces = torch.tensor([[0, 2, 1], [0, 1, 3], [0, 3, 2], [1, 2, 3]])
    >>> graph = PrimalDualGraph.from_mesh(TriangleMesh(torch.eye(4, 3), faces))
    >>> graph.num_primal, graph.num_dual, graph.primal.num_edges, graph.dual_edges.num_edges
    (4, 6, 12, 24)
    """

    dual: DualKind
    x_primal: Tensor
    x_dual: Tensor
    primal: EdgeIndex
    dual_edges: EdgeIndex
    undirected: Tensor
    to_undirected: Tensor
    edge_to_dual: Tensor
    primal_batch: Tensor
    dual_batch: Tensor
    num_graphs: int
    features: FeatureSet = "invariant"
    surface: Surface | None = None
    shares: AreaShares | None = None
    sizes: tuple[SizeName, ...] = ()
    inputs: tuple[str, ...] = ()

    @classmethod
    def from_mesh(
        cls,
        mesh: TriangleMesh,
        dual: DualKind = DualKind.SINGLE,
        features: FeatureSet = "invariant",
        *,
        sizes: Sequence[SizeName] = (),
        inputs: Sequence[str] = (),
        dtype: torch.dtype | None = None,
    ) -> PrimalDualGraph:
        """Build both graphs of a mesh and compute their node features.

        For a model use its ``graph(mesh)``, which selects the dual kind and the features. These are
        invariant to rotation, translation and scale, ``"invariant"`` and ``"multiscale"`` also to
        reflection. Renumbering faces permutes nodes. Raises ``MeshError`` if the mesh is
        non-manifold or inconsistently wound.

        Parameters
        ----------
        mesh : TriangleMesh
            Manifold, with or without boundary, consistently wound.
        dual : DualKind
            Kind of the dual graph.
        features : {"invariant", "reference", "multiscale"}
            See :func:`~equigeo.mesh.geometry.features.compute_features`. For ``"invariant"`` and
            ``"multiscale"`` the mesh is wound outwards first.
        sizes : sequence of {"area", "volume", "length"}
            Append the logarithms of these sizes of the mesh to the features of faces, which then
            depend on scale. The length is the root mean square distance of the surface from its
            center.
        inputs : sequence of str
            Append these ``mesh.inputs`` to the features of faces, and means over the two faces to
            those of pairs. Of vectors, these are the component along the normal and the norm.
        dtype : torch.dtype, optional
            Of the features; by default torch's default dtype. They are computed in float64, but
            means over pairs of ``"multiscale"`` features in this dtype.
        """
        check_mesh(mesh)
        dual = DualKind(dual)
        # Turning a part renumbers the half-edges inside its faces; where nothing was turned, the
        # pairing is used again.
        pairs = edge_pairs(mesh)
        wound = features in ("invariant", "multiscale")
        oriented = orient(mesh, pairs) if wound else mesh
        surface = Surface.from_mesh(oriented, pairs if oriented is mesh else None, inputs)
        undirected = surface.edges()
        graph = cls.from_adjacency(
            undirected, dual, surface.face_batch, surface.num_meshes, features=features
        )
        graph = replace(graph, surface=surface, sizes=tuple(sizes), inputs=tuple(inputs))
        return graph._measured(dtype or torch.get_default_dtype())

    @classmethod
    def from_adjacency(
        cls,
        undirected: Tensor,
        dual: DualKind,
        primal_batch: Tensor,
        num_graphs: int,
        *,
        features: FeatureSet = "invariant",
    ) -> PrimalDualGraph:
        """Build both graphs over given adjacencies, with features of zero channels.

        Arguments are the fields of the class; the rows of ``undirected`` must be distinct.
        """
        undirected = as_indices(undirected, "undirected")
        primal_batch = as_indices(primal_batch, "primal_batch")
        check_shape(undirected, "undirected", ("adjacencies", 2))
        primal, to_undirected = primal_edges(undirected, len(primal_batch))
        to_dual = edge_to_dual(dual, primal, to_undirected)
        # Both faces of an adjacency belong to one mesh: the first is that of a dual node.
        nodes = len(undirected) * dual.nodes_per_edge
        dual_batch = primal_batch[undirected[:, 0]].repeat_interleave(dual.nodes_per_edge)
        return cls(
            dual=dual,
            x_primal=torch.empty(len(primal_batch), 0, device=undirected.device),
            x_dual=torch.empty(nodes, 0, device=undirected.device),
            primal=primal,
            dual_edges=dual_edges(dual, primal, to_dual, undirected),
            undirected=undirected,
            to_undirected=to_undirected,
            edge_to_dual=to_dual,
            primal_batch=primal_batch,
            dual_batch=dual_batch,
            num_graphs=num_graphs,
            features=features,
        )

    @classmethod
    def batch(cls, graphs: Sequence[PrimalDualGraph]) -> PrimalDualGraph:
        """Return the block-diagonal union of graphs with equal dual kind and features, in order."""
        if not graphs:
            raise ValueError("a batch needs at least one graph, got none")
        for graph in graphs:
            check_graph(graph)
        first = graphs[0]
        if any(graph.kind != first.kind for graph in graphs):
            raise ValueError("graphs of one batch must have the same dual kind and features")
        surfaces = [graph.surface for graph in graphs if graph.surface is not None]
        primal = Shift([graph.num_primal for graph in graphs])
        dual = Shift([graph.num_dual for graph in graphs])
        adjacencies = Shift([len(graph.undirected) for graph in graphs])
        meshes = Shift([graph.num_graphs for graph in graphs])
        return cls(
            dual=first.dual,
            x_primal=torch.cat([graph.x_primal for graph in graphs]),
            x_dual=torch.cat([graph.x_dual for graph in graphs]),
            primal=EdgeIndex.disjoint_union([graph.primal for graph in graphs]),
            dual_edges=EdgeIndex.disjoint_union([graph.dual_edges for graph in graphs]),
            undirected=primal.join([graph.undirected for graph in graphs]),
            to_undirected=adjacencies.join([graph.to_undirected for graph in graphs]),
            edge_to_dual=dual.join([graph.edge_to_dual for graph in graphs]),
            primal_batch=meshes.join([graph.primal_batch for graph in graphs]),
            dual_batch=meshes.join([graph.dual_batch for graph in graphs]),
            num_graphs=meshes.total,
            features=first.features,
            surface=Surface.batch(surfaces) if len(surfaces) == len(graphs) else None,
            shares=AreaShares.batch([graph.shares for graph in graphs]),
            sizes=first.sizes,
            inputs=first.inputs,
        )

    def __repr__(self) -> str:
        return (
            f"PrimalDualGraph(graphs={self.num_graphs}, dual={self.dual.value!r}, "
            f"features={self.features!r}, x_primal={tuple(self.x_primal.shape)}, "
            f"x_dual={tuple(self.x_dual.shape)}, primal edges={self.primal.num_edges}, "
            f"dual edges={self.dual_edges.num_edges})"
        )

    @property
    def kind(self) -> tuple[DualKind, FeatureSet, tuple[SizeName, ...], tuple[str, ...]]:
        """Dual kind and names of the features."""
        return self.dual, self.features, self.sizes, self.inputs

    @property
    def num_primal(self) -> int:
        """Number of primal nodes."""
        return self.primal_batch.shape[0]

    @property
    def num_dual(self) -> int:
        """Number of dual nodes."""
        return self.dual_batch.shape[0]

    def with_features(self, x_primal: Tensor, x_dual: Tensor) -> PrimalDualGraph:
        """Replace the node features; raise ``ValueError`` if their numbers of rows do not fit."""
        x_primal, x_dual = as_tensor(x_primal, "x_primal"), as_tensor(x_dual, "x_dual")
        rows = [x.shape[0] if x.ndim else None for x in (x_primal, x_dual)]
        if rows != [self.num_primal, self.num_dual]:
            raise ValueError(
                f"features must have {self.num_primal} and {self.num_dual} rows, "
                f"got {rows[0]} and {rows[1]}"
            )
        return replace(self, x_primal=x_primal, x_dual=x_dual)

    def jitter(self, scale: float, generator: torch.Generator | None = None) -> PrimalDualGraph:
        """Move the vertices by normal deviates and recompute the features.

        ``scale`` is the standard deviation in mean edge lengths of each mesh. Pooled graphs have no
        surface and raise ``ValueError``.
        """
        return self.deform(jitter=scale, generator=generator)

    def deform(
        self,
        *,
        stretch: float = 0.0,
        jitter: float = 0.0,
        generator: torch.Generator | None = None,
    ) -> PrimalDualGraph:
        """Stretch every mesh along random axes, move its vertices and recompute the features.

        ``stretch`` is the standard deviation of the logarithms of the factors along the axes,
        ``jitter`` the scale of :meth:`jitter`.
        """
        if self.surface is None:
            raise ValueError("a pooled graph has no surface to move")
        surface = self.surface
        if stretch:
            surface = surface.stretch(stretch, generator)
        if jitter:
            surface = surface.jitter(jitter, generator)
        return replace(self, surface=surface)._measured(self.x_primal.dtype)

    def to(self, target: torch.device | str | torch.dtype) -> PrimalDualGraph:
        """Move features and indices to a device, or cast the features to a dtype."""
        if isinstance(target, torch.dtype):
            return self.with_features(self.x_primal.to(target), self.x_dual.to(target))
        kinds = (Tensor, EdgeIndex, Surface, AreaShares)
        moved: dict[str, Any]
        moved = {name: x.to(target) for name, x in vars(self).items() if isinstance(x, kinds)}
        return replace(self, **moved)

    def _measured(self, dtype: torch.dtype) -> PrimalDualGraph:
        if self.surface is None:
            raise ValueError("a pooled graph has no surface to measure")
        features = compute_features(self.surface, *self.kind, dtype)
        shares = AreaShares.measure(self.surface, self.undirected, self.dual)
        graph = replace(self, shares=shares)
        return graph.with_features(*features)


register_structure(Surface, "equigeo.mesh.Surface", {"num_meshes": int})
register_structure(AreaShares, "equigeo.mesh.AreaShares", {})
register_structure(
    PrimalDualGraph,
    "equigeo.mesh.PrimalDualGraph",
    {"dual": DualKind, "num_graphs": int, "features": str, "sizes": tuple, "inputs": tuple},
)


def check_graph(graph: object) -> None:
    """Raise TypeError unless the argument is a :class:`PrimalDualGraph`."""
    if not isinstance(graph, PrimalDualGraph):
        makes = "PrimalDualGraph.from_mesh or a model's graph(mesh) makes one of a TriangleMesh"
        raise TypeError(f"graph must be a PrimalDualGraph, got {kind_of(graph)}: {makes}")
