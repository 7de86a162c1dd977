"""Network from a triangle mesh to outputs at its faces, edges or vertices."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, cast, get_args

import torch
from torch import Tensor, nn

from equigeo._core.config import Range
from equigeo.groups import O
from equigeo.mesh.geometry.primal_dual_graph import PrimalDualGraph
from equigeo.mesh.geometry.triangle_mesh import TriangleMesh
from equigeo.mesh.nn.conv import PrimalDualConv
from equigeo.mesh.nn.mesh_model import (
    Elements,
    MeshModel,
    MeshModelConfig,
    adjacency_means,
    face_to_element_means,
    hidden_layer,
)
from equigeo.mesh.nn.pooling import PoolLog
from equigeo.mesh.nn.readout import Readout
from equigeo.mesh.nn.residual_block import ResidualBlock, UpBlock
from equigeo.reps import Representation, Trivial


@dataclass(frozen=True, kw_only=True)
class SegmenterConfig(MeshModelConfig):
    """Configuration of a :class:`equigeo.mesh.PrimalDualSegmenter`, in JSON types.

    The defaults are the default preset; :meth:`paper` is PD-MeshNet as published.

    Parameters
    ----------
    num_classes : int
        Outputs per element: logits, or values of a regression.
    outputs_at : {"faces", "edges", "vertices", "mesh"}
        Elements with outputs.
    channels : tuple of int
        Width of each encoder block per head, then that of the bottleneck.
    keep : tuple of float or None
        Share of adjacencies kept by the pooling after each encoder block; None for no pooling.
    heads : int
        Attention heads of encoder and bottleneck; the decoder has one and reads their mean.
    skips, decoder_skips : int
        Convolutions in residual branches of the encoder, and of bottleneck and decoder.
    context : bool
        Whether the decoder also reads mean and maximum of the bottleneck over each mesh.
    convolve_outputs : bool
        Whether outputs come from a convolution and its norm, or from a linear layer over face
        features and the mean of their adjacencies.
    dropout : float
        Before the linear layer.
    dual, features, norm, groups, max_degree, activation, self_term, coupling
    area_weighted, sizes, inputs, means, deviations
        See :class:`equigeo.mesh.ClassifierConfig`.

    Examples
    --------
    >>> SegmenterConfig.from_dict(SegmenterConfig(3).to_dict()) == SegmenterConfig(3)
    True
    """

    title: ClassVar[str] = "the configuration of the segmenter"
    ranges: ClassVar[Mapping[str, Range]] = {
        **MeshModelConfig.ranges,
        "decoder_skips": Range(0, 256),
    }

    outputs_at: Elements = "faces"
    channels: tuple[int, ...] = (32, 64, 64)
    keep: tuple[float | None, ...] = (0.7, 0.7)
    decoder_skips: int = 1
    context: bool = True
    convolve_outputs: bool = False
    dropout: float = 0.2

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.sizes and self.convolve_outputs:
            raise ValueError("sizes are read by a linear layer, got convolve_outputs")
        if len(self.channels) != len(self.keep) + 1:
            raise ValueError(
                "channels must have one entry more than keep, that of the bottleneck, "
                f"got {len(self.channels)} and {len(self.keep)}"
            )

    @classmethod
    def paper(cls, num_classes: int) -> SegmenterConfig:
        """Return PD-MeshNet's network for COSEG, including its known defects.

        * Convolutions end in a ReLU, also the last one before the norm that gives the logits.
        * Norms are followed by another norm; the first has groups of two channels.

        One deviation: see :meth:`equigeo.mesh.ClassifierConfig.paper`. For human bodies PD-MeshNet
        has two heads.
        """
        return cls(
            num_classes,
            features="reference",
            channels=(32, 64, 128),
            decoder_skips=0,
            norm="group",
            groups=16,
            max_degree=None,
            activation=True,
            self_term=False,
            context=False,
            convolve_outputs=True,
            dropout=0.0,
            area_weighted=False,
        )


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
        options = self._conv_options()
        self.encoder, channels = self._encoder(config.channels[:-1])
        bottom, heads = config.channels[-1], config.heads
        self.bottleneck = ResidualBlock(
            channels, (bottom, bottom), skips=config.decoder_skips, heads=heads, **options
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
            number = len(config.sizes)
            hidden = [hidden_layer(2 * bottom, number, 2 * bottom), nn.ReLU()] if number else []
            self.head = nn.Sequential(
                nn.Dropout(config.dropout), *hidden, nn.Linear(2 * bottom, config.num_classes)
            )

    @property
    def rep_out(self) -> Representation:
        """Invariant outputs at every element."""
        return Trivial(O(3), self.config.num_classes)

    def forward(self, shapes: PrimalDualGraph | TriangleMesh | Sequence[TriangleMesh]) -> Tensor:
        """Compute outputs (elements, num_classes) of meshes or of a graph from :meth:`graph`.

        Rows follow the order of faces or vertices, of edges as in
        :func:`~equigeo.mesh.nn.mesh_model.edge_faces`, or of meshes; those of several meshes are
        concatenated. Errors are those of :meth:`equigeo.mesh.PrimalDualClassifier.forward`.
        """
        return self._outputs(*self._decode(shapes))

    def features(
        self,
        shapes: PrimalDualGraph | TriangleMesh | Sequence[TriangleMesh],
        at: Elements | None = None,
    ) -> Tensor:
        """Return what outputs are computed from, (elements, features): descriptors of elements.

        ``at`` is the kind of elements, by default that of the outputs. With ``"mesh"`` the rows are
        means over each mesh, (meshes, features). Rows are ordered as in :meth:`forward`.
        """
        at = self.config.outputs_at if at is None else at
        if at not in get_args(Elements):
            raise ValueError(f"at must be one of {get_args(Elements)}, got {at!r}")
        graph, _ = self._decode(shapes)
        x = torch.cat((graph.x_primal, adjacency_means(graph)), dim=1)
        return face_to_element_means(graph, x, at, area_weighted=self.config.area_weighted)

    def _decode(
        self, shapes: PrimalDualGraph | TriangleMesh | Sequence[TriangleMesh]
    ) -> tuple[PrimalDualGraph, Tensor]:
        """Return the graph with the features of the decoder, and sizes."""
        graph, sizes = self._standardized(self._as_graph(shapes))
        graph, skips, logs = self._encode(graph)
        if self.readout is not None:
            whole = self.readout(graph)
            graph = graph.with_features(
                torch.cat((graph.x_primal, whole.index_select(0, graph.primal_batch)), dim=1),
                torch.cat((graph.x_dual, whole.index_select(0, graph.dual_batch)), dim=1),
            )
        for block, log, skip in zip(self.decoder, reversed(logs), reversed(skips), strict=True):
            graph = block(graph, log, skip)
        return graph, sizes

    def embed(self, shapes: PrimalDualGraph | TriangleMesh | Sequence[TriangleMesh]) -> Tensor:
        """Return mean and maximum of the coarsest graph, (num_graphs, embedding_width)."""
        graph, _, _ = self._encode(self._standardized(self._as_graph(shapes))[0])
        vectors: Tensor = self.summary(graph)
        return vectors

    def _outputs(self, graph: PrimalDualGraph, sizes: Tensor) -> Tensor:
        x = graph.x_primal
        if self.output_conv is not None:
            x, _, _ = self.output_conv(graph, x, graph.x_dual)
        else:
            own = sizes.index_select(0, graph.primal_batch)
            x = torch.cat((x, adjacency_means(graph), own), dim=1)
        x = face_to_element_means(
            graph, x, self.config.outputs_at, area_weighted=self.config.area_weighted
        )
        if isinstance(self.head, nn.BatchNorm1d) and self.head.training and len(x) < 2:
            return x  # batch statistics need two rows
        return self._in_units(self.head(x))

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
