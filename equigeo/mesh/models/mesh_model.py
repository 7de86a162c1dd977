"""Base class of networks over triangle meshes."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, TypeVar

import torch
from torch import Tensor

from equigeo.graphs.inputs import check_shape
from equigeo.mesh.conv.residual_block import ResidualBlock
from equigeo.mesh.geometry.dual_kind import DualKind
from equigeo.mesh.geometry.features import feature_channels
from equigeo.mesh.geometry.primal_dual_graph import PrimalDualGraph, check_graph
from equigeo.mesh.geometry.triangle_mesh import TriangleMesh, check_mesh
from equigeo.mesh.models.inspection import Inspection, received_attention
from equigeo.mesh.models.standardize import Standardize
from equigeo.mesh.pooling.contraction import Aggregation
from equigeo.mesh.pooling.edge_pool import EdgePool
from equigeo.nn.evaluating import evaluating
from equigeo.nn.override import check_config, override
from equigeo.nn.state import SavedConfig

_Model = TypeVar("_Model", bound="MeshModel")  # typing.Self is newer than Python 3.10


class MeshModel(SavedConfig):
    """Base class that builds graphs with invariant features and standardises them."""

    config_type: ClassVar[type[Any]]

    def __init__(
        self,
        config: Any,  # an instance of `config_type`, stored as `model.config`
    ) -> None:
        check_config(config, self.config_type)
        super().__init__()
        self.config = config
        self.dual_kind = DualKind(config.dual)
        primal, edge = feature_channels(self.dual_kind, config.features)
        self.standardize_primal, self.standardize_dual = Standardize(primal), Standardize(edge)

    @classmethod
    def preset(cls: type[_Model], name: str, num_classes: int, **changes: Any) -> _Model:
        """Build the preset ``"default"`` or ``"paper"``, with changed configuration fields."""
        presets = {"default": cls.config_type, "paper": cls.config_type.paper}
        if name not in presets:
            raise ValueError(f"preset must be one of {sorted(presets)}, got {name!r}")
        return cls(override(presets[name](num_classes), changes))

    @property
    def rep_in(self) -> None:
        """None: the input is a mesh, which has its own ``act``."""

    def graph(self, mesh: TriangleMesh) -> PrimalDualGraph:
        """Build the graph of a mesh with the features and dtype of this model.

        Build it once and reuse it if a mesh is needed repeatedly, for example in training. Raises
        ``MeshError`` if the mesh is non-manifold or inconsistently wound.
        """
        dtype = self.standardize_primal.mean.dtype
        return PrimalDualGraph.from_mesh(mesh, self.dual_kind, self.config.features, dtype=dtype)

    def fit_standardization(self, graphs: Sequence[PrimalDualGraph]) -> None:
        """Measure mean and deviation of features over all nodes of graphs from :meth:`graph`."""
        for graph in graphs:
            self._check_kind(graph)
        self.standardize_primal.fit([graph.x_primal for graph in graphs])
        self.standardize_dual.fit([graph.x_dual for graph in graphs])

    def clusters(self, graph: PrimalDualGraph) -> list[Tensor]:
        """Return the cluster of each original face after each pooling step, (faces,) int64."""
        check_graph(graph)
        return list(self.inspect(graph).clusters)

    @torch.no_grad()
    def inspect(
        self, shapes: PrimalDualGraph | TriangleMesh | Sequence[TriangleMesh]
    ) -> Inspection:
        """Return attention and clusters of the original faces of meshes, in evaluation mode.

        ``attention`` holds for every block (faces,) the attention that a face, or later its
        cluster, receives in the last convolution, relative to 1 for uniform attention.
        ``clusters`` holds for every pooling step (faces,) the cluster of each face.
        """
        graph = self._standardized(self._as_graph(shapes))
        cluster = torch.arange(graph.num_primal, device=graph.x_primal.device)
        attention, clusters = [], []
        with evaluating(self):
            for block in self._analysis_blocks():
                graph, weights = block.convolve(graph, graph.x_primal, graph.x_dual)
                attention.append(received_attention(graph, weights)[cluster])
                if block.pool is not None:
                    graph, log = block.pool(graph, weights)
                    # a log maps the clusters of the step before; composed, the original faces
                    cluster = log.cluster[cluster]
                    clusters.append(cluster)
        return Inspection(tuple(attention), tuple(clusters))

    @abstractmethod
    def _analysis_blocks(self) -> Iterable[ResidualBlock]:
        """Return the consecutive blocks from the input to the coarsest graph."""

    def _pool(self, keep: float | None) -> EdgePool | None:
        if keep is None:
            return None
        aggregation: Aggregation = "area" if self.config.area_weighted else "mean"
        return EdgePool(keep, max_degree=self.config.max_degree, aggregation=aggregation)

    def _as_graph(
        self, shapes: PrimalDualGraph | TriangleMesh | Sequence[TriangleMesh]
    ) -> PrimalDualGraph:
        """Return a graph unchanged; build the graph of meshes on the device of the model."""
        if isinstance(shapes, PrimalDualGraph):
            return shapes
        meshes = shapes if isinstance(shapes, (list, tuple)) else (shapes,)
        for mesh in meshes:
            if isinstance(mesh, PrimalDualGraph):
                raise TypeError("graphs must be united by PrimalDualGraph.batch, got several")
            check_mesh(mesh)
        if not meshes:
            raise ValueError("meshes must be at least one, got none")
        device = self.standardize_primal.mean.device
        return PrimalDualGraph.batch([self.graph(mesh) for mesh in meshes]).to(device)

    def _check_kind(self, graph: PrimalDualGraph) -> None:
        """Raise unless a graph has the dual kind and the features of the configuration."""
        check_graph(graph)
        if (graph.dual, graph.features) != (self.dual_kind, self.config.features):
            raise ValueError(
                f"the model expects {self.dual_kind.value} graphs with {self.config.features} "
                f"features, got {graph.dual.value} with {graph.features}; build them with "
                "model.graph(mesh)"
            )

    def _standardized(self, graph: PrimalDualGraph) -> PrimalDualGraph:
        """Validate a graph against the configuration and standardise its features."""
        self._check_kind(graph)
        channels = feature_channels(self.dual_kind, self.config.features)
        for name, width in zip(("x_primal", "x_dual"), channels, strict=True):
            check_shape(getattr(graph, name), f"graph.{name}", ("nodes", width))
        device = self.standardize_primal.mean.device
        if graph.x_primal.device != device:
            raise ValueError(
                f"graph must be on {device} as the model is, got {graph.x_primal.device}: graph.to"
            )
        return graph.with_features(
            self.standardize_primal(graph.x_primal), self.standardize_dual(graph.x_dual)
        )
