"""A classifier of 3D shapes given as triangle meshes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final, cast

import torch
from torch import Tensor, nn

from equigeo._core.checks import check_batch_size
from equigeo._core.config import Range
from equigeo.groups import O
from equigeo.mesh.geometry.primal_dual_graph import PrimalDualGraph
from equigeo.mesh.geometry.triangle_mesh import TriangleMesh
from equigeo.mesh.nn.mesh_model import MeshModel, MeshModelConfig, hidden_layer
from equigeo.mesh.nn.readout import Readout, Statistic, Streams
from equigeo.mesh.nn.residual_block import ResidualBlock
from equigeo.reps import Representation, Trivial


@dataclass(frozen=True, kw_only=True)
class ClassifierConfig(MeshModelConfig):
    """Configuration of a :class:`equigeo.mesh.PrimalDualClassifier`, in JSON types.

    The defaults are the default preset; :meth:`paper` is PD-MeshNet as published.

    Parameters
    ----------
    num_classes : int
        Number of logits, or of values of a regression.
    dual : str
        Value of a :class:`equigeo.mesh.DualKind`.
    features : {"invariant", "reference", "multiscale"}
        Node features, see :func:`equigeo.mesh.geometry.features.compute_features`.
    channels : tuple of int
        Width of each block per head.
    keep : tuple of float or None
        Share of adjacencies kept by the pooling after each block; None for no pooling.
    heads, skips : int
        Attention heads, and convolutions in each residual branch.
    norm, groups
        Final norm of each block, see :class:`equigeo.mesh.ResidualBlock`.
    max_degree : int or None
        Maximum neighbors of a cluster, see :class:`equigeo.mesh.EdgePool`.
    activation, self_term, coupling : bool
        Options of every :class:`equigeo.mesh.PrimalDualConv`.
    streams, statistics, every_block
        Pooled streams and statistics, of all blocks or of the last one.
    hidden : int or None
        Width of a hidden layer of the head; None for a linear head after a BatchNorm.
    dropout : float
        On the pooled vector.
    area_weighted : bool
        Whether the means of read-out and pooling are weighted by area.
    sizes : tuple of {"area", "volume", "length"}
        Sizes of the mesh that are read as well; without these, outputs do not depend on scale. See
        :meth:`equigeo.mesh.PrimalDualGraph.from_mesh`.
    inputs : tuple of str
        Inputs of the mesh that are read as well, see :class:`equigeo.mesh.TriangleMesh`.
    means, deviations : tuple of float
        Of the targets of a regression, which convert the outputs to their units; empty for logits.

    Examples
    --------
    >>> ClassifierConfig.from_dict(ClassifierConfig(3).to_dict()) == ClassifierConfig(3)
    True
    """

    title: ClassVar[str] = "the configuration of the classifier"
    ranges: ClassVar[Mapping[str, Range]] = {
        **MeshModelConfig.ranges,
        "hidden": Range(1, 65_536),
    }

    channels: tuple[int, ...] = (32, 32, 32, 32)
    keep: tuple[float | None, ...] = (None, None, 0.8, None)
    streams: Streams = "both"
    statistics: tuple[Statistic, ...] = ("mean", "max")
    every_block: bool = True
    hidden: int | None = None
    dropout: float = 0.5

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.channels or len(self.channels) != len(self.keep):
            raise ValueError(
                f"channels and keep must have one entry per block, got {len(self.channels)} and "
                f"{len(self.keep)}"
            )

    @classmethod
    def paper(cls, num_classes: int) -> ClassifierConfig:
        """Return PD-MeshNet's classifier for SHREC'11, including its known defects.

        * The features are invariant to SE(3) only; face numbers break ties between the sides of an
          edge.
        * Convolutions have no self term.
        * The read-out pools only the dual stream: the primal stream and the ranking of contractions
          keep their initial values.
        * The first group norm has groups of twelve channels.

        One deviation: equal scores at the quota of a pooling step are not distinguished by their
        numbers, see :class:`equigeo.mesh.EdgePool`.
        """
        return cls(
            num_classes,
            features="reference",
            channels=(64, 128),
            keep=(0.8, 0.8),
            heads=3,
            norm="group",
            groups=16,
            max_degree=None,
            activation=True,
            self_term=False,
            coupling=False,
            streams="dual",
            statistics=("mean",),
            every_block=False,
            hidden=100,
            dropout=0.0,
            area_weighted=False,
        )

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> ClassifierConfig:
        if isinstance(values, Mapping):
            values = {**_UNKNOWN_EARLIER, **values}
        return super().from_dict(values)


# Fields that configurations of earlier versions lack, and what those versions did.
_UNKNOWN_EARLIER: Final[Mapping[str, Any]] = {"area_weighted": False}


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
        self.readout = Readout(
            config.streams, config.statistics, area_weighted=config.area_weighted
        )
        self.blocks, _ = self._encoder(config.channels)
        widths = [self.readout.width(*block.out_channels) for block in self._analysis_blocks()]
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
        graph = self._as_graph(shapes)
        if isinstance(self.head[0], nn.BatchNorm1d):
            self._check_kind(graph)
            check_batch_size(self.head[0], graph.num_graphs, "meshes")
        standard, sizes = self._standardized(graph)
        vectors = torch.cat((self._embed(standard), sizes), dim=1)
        # float32 under autocast, which batch norm does not cast
        return self._in_units(self.head(vectors.to(next(self.head.parameters()).dtype)))

    def embed(self, shapes: PrimalDualGraph | TriangleMesh | Sequence[TriangleMesh]) -> Tensor:
        """Return the pooled vectors of all blocks or the last, (num_graphs, embedding_width)."""
        return self._embed(self._standardized(self._as_graph(shapes))[0])

    def _embed(self, graph: PrimalDualGraph) -> Tensor:
        vectors = []
        for block in self.blocks:
            graph, _ = block(graph, graph.x_primal, graph.x_dual)
            vectors.append(self.readout(graph))
        return torch.cat(vectors if self.config.every_block else vectors[-1:], dim=1)

    def _analysis_blocks(self) -> Iterable[ResidualBlock]:
        return cast("Iterable[ResidualBlock]", self.blocks)


def _head(width: int, config: ClassifierConfig) -> nn.Sequential:
    sizes = len(config.sizes)
    if config.hidden is None:
        width += sizes
        return nn.Sequential(
            nn.BatchNorm1d(width), nn.Dropout(config.dropout), nn.Linear(width, config.num_classes)
        )
    layers = (
        hidden_layer(width, sizes, config.hidden), nn.Linear(config.hidden, config.num_classes)
    )  # fmt: skip
    # As PD-MeshNet initializes its linear layers, which is slow for numbers.
    for layer in () if config.means else layers:
        nn.init.normal_(layer.weight, std=0.02)
        nn.init.zeros_(layer.bias)
    return nn.Sequential(layers[0], nn.ReLU(), nn.Dropout(config.dropout), layers[1])
