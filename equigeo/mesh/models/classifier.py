"""A classifier of 3D shapes given as triangle meshes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import cast

import torch
from torch import Tensor, nn

from equigeo.groups import O
from equigeo.mesh.conv.residual_block import ResidualBlock
from equigeo.mesh.geometry.features import feature_channels
from equigeo.mesh.geometry.primal_dual_graph import PrimalDualGraph
from equigeo.mesh.geometry.triangle_mesh import TriangleMesh
from equigeo.mesh.models.classifier_config import ClassifierConfig
from equigeo.mesh.models.mesh_model import MeshModel
from equigeo.mesh.models.readout import Readout
from equigeo.reps import Representation, Trivial


class PrimalDualClassifier(MeshModel):
    """Primal-dual convolutions, pooling, and a read-out over each mesh.

    Invariant to rotation, translation, scale and every renumbering; with ``"invariant"`` and
    ``"multiscale"`` features also to reflection. Reference: Milano et al., "Primal-Dual Mesh
    Convolutional Neural Networks", NeurIPS 2020.

    Parameters
    ----------
    config : ClassifierConfig
        Kept as ``model.config``.

    Attributes
    ----------
    embedding_width : int
        Length of the vectors of :meth:`embed`.

    Examples
    --------
    >>> faces = torch.tensor([[0, 2, 1], [0, 1, 3], [0, 3, 2], [1, 2, 3]])
    >>> tetrahedron = TriangleMesh(torch.eye(4, 3), faces)
    >>> model = PrimalDualClassifier.preset("default", num_classes=3).eval()
    >>> model(tetrahedron).shape
    torch.Size([1, 3])
    """

    config_type = ClassifierConfig
    config: ClassifierConfig

    def __init__(self, config: ClassifierConfig) -> None:
        super().__init__(config)
        channels = feature_channels(self.dual_kind, config.features)
        self.readout = Readout(
            config.streams, config.statistics, area_weighted=config.area_weighted
        )
        self.blocks = nn.ModuleList()
        widths = []
        for width, keep in zip(config.channels, config.keep, strict=True):
            block = ResidualBlock(
                channels,
                (width, width),
                skips=config.skips,
                norm=config.norm,
                groups=config.groups,
                pool=self._pool(keep),
                heads=config.heads,
                activation=config.activation,
                self_term=config.self_term,
                coupling=config.coupling,
            )
            self.blocks.append(block)
            channels = block.out_channels
            widths.append(self.readout.width(*channels))
        self.embedding_width = sum(widths) if config.every_block else widths[-1]
        self.head = _head(self.embedding_width, config)

    @property
    def rep_out(self) -> Representation:
        """Invariant logits."""
        return Trivial(O(3), self.config.num_classes)

    def forward(self, shapes: PrimalDualGraph | TriangleMesh | Sequence[TriangleMesh]) -> Tensor:
        """Compute logits (num_graphs, num_classes) of meshes or of a graph from :meth:`graph`.

        Graphs of meshes are built on their device and moved to that of the model.
        Raises ``MeshError`` if a mesh is non-manifold or inconsistently wound, and ``ValueError``
        if a graph has other features, another dual kind or another device than the model.
        """
        vectors = self.embed(shapes)  # float32 under autocast, which batch norm does not cast
        logits: Tensor = self.head(vectors.to(next(self.head.parameters()).dtype))
        return logits

    def embed(self, shapes: PrimalDualGraph | TriangleMesh | Sequence[TriangleMesh]) -> Tensor:
        """Return the pooled vectors of all blocks or the last, (num_graphs, embedding_width)."""
        graph = self._standardized(self._as_graph(shapes))
        vectors = []
        for block in self.blocks:
            graph, _ = block(graph, graph.x_primal, graph.x_dual)
            vectors.append(self.readout(graph))
        return torch.cat(vectors if self.config.every_block else vectors[-1:], dim=1)

    def _analysis_blocks(self) -> Iterable[ResidualBlock]:
        return cast("Iterable[ResidualBlock]", self.blocks)


def _head(width: int, config: ClassifierConfig) -> nn.Module:
    if config.hidden is None:
        return nn.Sequential(
            nn.BatchNorm1d(width), nn.Dropout(config.dropout), nn.Linear(width, config.num_classes)
        )
    layers = (nn.Linear(width, config.hidden), nn.Linear(config.hidden, config.num_classes))
    for layer in layers:  # as PD-MeshNet initialises its linear layers
        nn.init.normal_(layer.weight, std=0.02)
        nn.init.zeros_(layer.bias)
    return nn.Sequential(layers[0], nn.ReLU(), nn.Dropout(config.dropout), layers[1])
