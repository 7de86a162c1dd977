"""Network from a triangle mesh to outputs at its faces, edges or vertices."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, cast

import torch
from torch import Tensor, nn

from equigeo.groups import O
from equigeo.mesh.conv.primal_dual_conv import PrimalDualConv
from equigeo.mesh.conv.residual_block import ResidualBlock
from equigeo.mesh.geometry.features import feature_channels
from equigeo.mesh.geometry.primal_dual_graph import PrimalDualGraph
from equigeo.mesh.geometry.triangle_mesh import TriangleMesh
from equigeo.mesh.models.elements import adjacency_means, face_to_element_means
from equigeo.mesh.models.mesh_model import MeshModel
from equigeo.mesh.models.readout import Readout
from equigeo.mesh.models.segmenter_config import SegmenterConfig
from equigeo.mesh.models.up_block import UpBlock
from equigeo.mesh.pooling.unpool import PoolLog
from equigeo.reps import Representation, Trivial


class PrimalDualSegmenter(MeshModel):
    """A U-Net of primal-dual convolutions with pooling and unpooling.

    Outputs are logits or regression values, per face, edge, vertex or mesh. Those of edges and
    vertices are means over the faces around them. Invariant to rotation, translation and scale;
    with ``"invariant"`` and ``"multiscale"`` features also to reflection. Renumbering faces or
    vertices permutes outputs.

    Parameters
    ----------
    config : SegmenterConfig
        Kept as ``model.config``.

    Attributes
    ----------
    embedding_width : int
        Length of the vectors of :meth:`embed`.

    Examples
    --------
    >>> faces = torch.tensor([[0, 2, 1], [0, 1, 3], [0, 3, 2], [1, 2, 3]])
    >>> tetrahedron = TriangleMesh(torch.eye(4, 3), faces)
    >>> model = PrimalDualSegmenter.preset("default", num_classes=5, outputs_at="edges").eval()
    >>> model(tetrahedron).shape
    torch.Size([6, 5])
    """

    config_type = SegmenterConfig
    config: SegmenterConfig

    def __init__(self, config: SegmenterConfig) -> None:
        super().__init__(config)
        options: dict[str, Any] = {
            "activation": config.activation,
            "self_term": config.self_term,
            "coupling": config.coupling,
        }
        channels = feature_channels(self.dual_kind, config.features)
        self.encoder = nn.ModuleList()
        for width, keep in zip(config.channels[:-1], config.keep, strict=True):
            block = ResidualBlock(
                channels, (width, width), skips=config.skips, norm=config.norm,
                groups=config.groups, pool=self._pool(keep),
                heads=config.heads, **options,
            )  # fmt: skip
            self.encoder.append(block)
            channels = block.out_channels
        bottom = config.channels[-1]
        self.bottleneck = ResidualBlock(
            channels, (bottom, bottom), skips=config.decoder_skips, heads=config.heads, **options
        )
        self.summary = Readout("both", ("mean", "max"), area_weighted=config.area_weighted)
        self.embedding_width = self.summary.width(bottom, bottom)
        self.readout = self.summary if config.context else None
        if config.context:
            bottom += self.embedding_width
        self.decoder = nn.ModuleList()
        for width in reversed(config.channels[:-1]):
            self.decoder.append(
                UpBlock(bottom, width, width, config.decoder_skips, bias=True, **options)
            )
            bottom = width
        self.output_conv: PrimalDualConv | None = None
        if config.convolve_outputs:
            self.output_conv = PrimalDualConv(
                (bottom, bottom), (config.num_classes, bottom), **options
            )
            self.head: nn.Module = nn.BatchNorm1d(config.num_classes)
        else:
            self.head = nn.Sequential(
                nn.Dropout(config.dropout), nn.Linear(2 * bottom, config.num_classes)
            )

    @property
    def rep_out(self) -> Representation:
        """Invariant outputs at every element."""
        return Trivial(O(3), self.config.num_classes)

    def forward(self, shapes: PrimalDualGraph | TriangleMesh | Sequence[TriangleMesh]) -> Tensor:
        """Compute outputs (elements, num_classes) of meshes or of a graph from :meth:`graph`.

        Rows follow the order of faces or vertices, of edges as in
        :func:`~equigeo.mesh.models.elements.edge_faces`, or of meshes; those of several meshes are
        concatenated. Errors are those of :meth:`equigeo.mesh.PrimalDualClassifier.forward`.
        """
        graph, skips, logs = self._encode(self._standardized(self._as_graph(shapes)))
        if self.readout is not None:
            whole = self.readout(graph)
            graph = graph.with_features(
                torch.cat((graph.x_primal, whole[graph.primal_batch]), dim=1),
                torch.cat((graph.x_dual, whole[graph.dual_batch]), dim=1),
            )
        for block, log, skip in zip(self.decoder, reversed(logs), reversed(skips), strict=True):
            graph = block(graph, log, skip)
        return self._outputs(graph)

    def embed(self, shapes: PrimalDualGraph | TriangleMesh | Sequence[TriangleMesh]) -> Tensor:
        """Return mean and maximum of the coarsest graph, (num_graphs, embedding_width)."""
        graph, _, _ = self._encode(self._standardized(self._as_graph(shapes)))
        vectors: Tensor = self.summary(graph)
        return vectors

    def _outputs(self, graph: PrimalDualGraph) -> Tensor:
        x = graph.x_primal
        if self.output_conv is not None:
            x, _, _ = self.output_conv(graph, x, graph.x_dual)
        else:
            x = torch.cat((x, adjacency_means(graph)), dim=1)
        x = face_to_element_means(
            graph, x, self.config.outputs_at, area_weighted=self.config.area_weighted
        )
        if isinstance(self.head, nn.BatchNorm1d) and self.head.training and len(x) < 2:
            return x  # batch statistics need two rows
        outputs: Tensor = self.head(x)
        return outputs

    def _encode(
        self, graph: PrimalDualGraph
    ) -> tuple[PrimalDualGraph, list[tuple[Tensor, Tensor]], list[PoolLog | None]]:
        """Return the coarsest graph, the features before each pooling and the pooling logs."""
        skips, logs = [], []
        for block in self.encoder:
            graph, log = block(graph, graph.x_primal, graph.x_dual)
            skips.append(self._averaged(graph if log is None else log.graph))
            logs.append(log)
        graph, _ = self.bottleneck(graph, graph.x_primal, graph.x_dual)
        return graph.with_features(*self._averaged(graph)), skips, logs

    def _averaged(self, graph: PrimalDualGraph) -> tuple[Tensor, Tensor]:
        x_primal, x_dual = graph.x_primal, graph.x_dual
        if self.config.heads == 1:
            return x_primal, x_dual
        heads = (self.config.heads, -1)
        return x_primal.unflatten(1, heads).mean(dim=1), x_dual.unflatten(1, heads).mean(dim=1)

    def _analysis_blocks(self) -> Iterable[ResidualBlock]:
        return cast("Iterable[ResidualBlock]", (*self.encoder, self.bottleneck))
