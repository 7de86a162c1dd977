"""A classifier of 3D shapes given as triangle meshes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from equigeo.graphs.inputs import check_shape
from equigeo.groups import O
from equigeo.mesh.conv.residual_block import ResidualBlock
from equigeo.mesh.geometry.dual_kind import DualKind
from equigeo.mesh.geometry.features import feature_channels
from equigeo.mesh.geometry.primal_dual_graph import PrimalDualGraph, check_graph
from equigeo.mesh.geometry.triangle_mesh import TriangleMesh
from equigeo.mesh.models.classifier_config import ClassifierConfig
from equigeo.mesh.models.readout import Readout
from equigeo.mesh.models.standardize import Standardize
from equigeo.mesh.pooling.edge_pool import EdgePool
from equigeo.mesh.pooling.unpool import PoolLog
from equigeo.nn.evaluating import evaluating
from equigeo.nn.override import check_config, override
from equigeo.reps import Representation, Trivial


class PrimalDualClassifier(nn.Module):
    """Primal-dual convolutions, pooling, and a read-out over each mesh.

    Parameters
    ----------
    config : ClassifierConfig
        What it is made of; kept as ``model.config``.

    Equivariance
    ------------
    With ``"invariant"`` features the logits are invariant to rotation, reflection, translation,
    scale and every renumbering of vertices and faces; with the others to all but reflection.

    References
    ----------
    Milano et al., "Primal-Dual Mesh Convolutional Neural Networks", NeurIPS 2020.

    Examples
    --------
    >>> tetrahedron = TriangleMesh(
    ...     torch.tensor([[0.0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]]),
    ...     torch.tensor([[0, 2, 1], [0, 1, 3], [0, 3, 2], [1, 2, 3]]),
    ... )
    >>> model = PrimalDualClassifier.preset("default", num_classes=3).eval()
    >>> model(model.graph(tetrahedron)).shape
    torch.Size([1, 3])
    """

    def __init__(self, config: ClassifierConfig) -> None:
        super().__init__()
        check_config(config, ClassifierConfig)
        self.config = config
        self.dual_kind = DualKind(config.dual)
        channels = feature_channels(self.dual_kind, config.features)
        self.standardize_primal = Standardize(channels[0])
        self.standardize_dual = Standardize(channels[1])
        self.readout = Readout(config.streams, config.statistics)
        self.blocks = nn.ModuleList()
        widths = []
        for width, keep in zip(config.channels, config.keep, strict=True):
            block = ResidualBlock(
                channels,
                (width, width),
                skips=config.skips,
                norm=config.norm,
                groups=config.groups,
                pool=None if keep is None else EdgePool(keep, max_degree=config.max_degree),
                heads=config.heads,
                activation=config.activation,
                self_term=config.self_term,
                coupling=config.coupling,
            )
            self.blocks.append(block)
            channels = block.out_channels
            widths.append(self.readout.width(*channels))
        self.head = _head(sum(widths) if config.every_block else widths[-1], config)

    @classmethod
    def preset(cls, name: str, num_classes: int, **changes: Any) -> PrimalDualClassifier:
        """Build a preset.

        Parameters
        ----------
        name : {"default", "paper"}
            Which one, see :class:`ClassifierConfig`.
        num_classes : int
            Number of logits.
        **changes
            Fields of :class:`ClassifierConfig` that differ from the preset.

        Raises
        ------
        ValueError
            If a name is unknown or a value out of range.
        """
        presets = {"default": ClassifierConfig, "paper": ClassifierConfig.paper}
        if name not in presets:
            raise ValueError(f"preset must be one of {sorted(presets)}, got {name!r}")
        return cls(override(presets[name](num_classes), changes))

    @classmethod
    def from_config(cls, config: ClassifierConfig | Mapping[str, Any]) -> PrimalDualClassifier:
        """Build from :attr:`config`, or from what its ``to_dict`` gave.

        Parameters
        ----------
        config : ClassifierConfig or mapping of JSON types
            Fields that a mapping lacks take the default preset's value.

        Raises
        ------
        ValueError
            If a field is unknown, missing or out of range.
        """
        return cls(
            config if isinstance(config, ClassifierConfig) else ClassifierConfig.from_dict(config)
        )

    @property
    def rep_in(self) -> None:
        """None: what moves is the mesh, which has an ``act`` of its own."""

    @property
    def rep_out(self) -> Representation:
        """Invariant logits."""
        return Trivial(O(3), self.config.num_classes)

    def graph(self, mesh: TriangleMesh) -> PrimalDualGraph:
        """Build the graph of a mesh with the features of this model.

        Parameters
        ----------
        mesh : TriangleMesh
            Manifold and consistently wound, as :func:`equigeo.mesh.load_mesh` leaves it.

        Returns
        -------
        PrimalDualGraph
            With features in the dtype of the model.

        Raises
        ------
        MeshError
            If the mesh is non-manifold or inconsistently wound.
        """
        dtype = self.standardize_primal.mean.dtype
        return PrimalDualGraph.from_mesh(mesh, self.dual_kind, self.config.features, dtype=dtype)

    def fit_standardization(self, graphs: Sequence[PrimalDualGraph]) -> None:
        """Measure mean and deviation of the features over training graphs.

        Parameters
        ----------
        graphs : sequence of PrimalDualGraph
            From :meth:`graph`; all of their nodes count alike.

        Raises
        ------
        ValueError
            If there are no graphs, or none has adjacent faces.
        """
        self.standardize_primal.fit([graph.x_primal for graph in graphs])
        self.standardize_dual.fit([graph.x_dual for graph in graphs])

    def forward(self, graph: PrimalDualGraph) -> Tensor:
        """Classify.

        Parameters
        ----------
        graph : PrimalDualGraph
            One mesh or a batch, from :meth:`graph`.

        Returns
        -------
        Tensor, (num_graphs, num_classes)
            Logits.

        Raises
        ------
        TypeError
            If ``graph`` is no PrimalDualGraph.
        ValueError
            If the graph has other features or another kind of dual graph than the model, or is on
            another device.
        """
        return self.head(self._encode(graph)[0])

    @torch.no_grad()
    def clusters(self, graph: PrimalDualGraph) -> list[Tensor]:
        """Find the cluster of every face after each pooling step.

        Parameters
        ----------
        graph : PrimalDualGraph
            One mesh or a batch.

        Returns
        -------
        list of Tensor, (primal nodes,), int64
            One entry per pooling step, each in terms of the original faces.
        """
        with evaluating(self):
            logs = self._encode(graph)[1]
        # A log maps the clusters of the step before; composed, they map the original faces.
        levels: list[Tensor] = []
        for log in logs:
            levels.append(log.cluster[levels[-1]] if levels else log.cluster)
        return levels

    def _encode(self, graph: PrimalDualGraph) -> tuple[Tensor, list[PoolLog]]:
        check_graph(graph)
        if (graph.dual, graph.features) != (self.dual_kind, self.config.features):
            raise ValueError(
                f"the model wants {self.dual_kind.value} graphs with {self.config.features} "
                f"features, got {graph.dual.value} with {graph.features}"
            )
        channels = feature_channels(self.dual_kind, self.config.features)
        for name, width in zip(("x_primal", "x_dual"), channels, strict=True):
            check_shape(getattr(graph, name), f"graph.{name}", ("nodes", width))
        device = self.standardize_primal.mean.device
        if graph.x_primal.device != device:
            raise ValueError(
                f"graph must be on {device} as the model is, got {graph.x_primal.device}: graph.to"
            )
        graph = graph.with_features(
            self.standardize_primal(graph.x_primal), self.standardize_dual(graph.x_dual)
        )
        vectors, logs = [], []
        for block in self.blocks:
            graph, log = block(graph, graph.x_primal, graph.x_dual)
            vectors.append(self.readout(graph))
            if log is not None:
                logs.append(log)
        return torch.cat(vectors if self.config.every_block else vectors[-1:], dim=1), logs


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
