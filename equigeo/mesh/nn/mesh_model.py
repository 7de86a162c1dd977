"""Base class of networks over triangle meshes."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Literal, TypeVar

import torch
from torch import Tensor, nn

from equigeo._core.checks import check_shape
from equigeo._core.config import Config, Range, check_config, override
from equigeo._core.tensors import check_in_program
from equigeo.graphs.edge_index import count_indices
from equigeo.mesh.geometry.dual_graph import DualKind
from equigeo.mesh.geometry.features import FeatureSet, SizeName, feature_channels
from equigeo.mesh.geometry.orient import Surface
from equigeo.mesh.geometry.primal_dual_graph import PrimalDualGraph, check_graph
from equigeo.mesh.geometry.triangle_mesh import TriangleMesh, check_mesh
from equigeo.mesh.nn.contraction import Aggregation
from equigeo.mesh.nn.norm import NormName, Standardize
from equigeo.mesh.nn.pooling import EdgePool
from equigeo.mesh.nn.readout import group_mean
from equigeo.mesh.nn.residual_block import ResidualBlock
from equigeo.nn.module import evaluating
from equigeo.nn.state import SavedConfig

_Model = TypeVar("_Model", bound="MeshModel")  # typing.Self is newer than Python 3.10
Elements = Literal["faces", "edges", "vertices", "mesh"]


@dataclass(frozen=True)
class MeshModelConfig(Config):
    """Options that all mesh networks have; see :class:`equigeo.mesh.ClassifierConfig`."""

    ranges: ClassVar[Mapping[str, Range]] = {
        "num_classes": Range(1, 10**6),
        "channels": Range(1, 65_536),
        "keep": Range(0.0, 1.0),
        "heads": Range(1, 256),
        "skips": Range(0, 256),
        "groups": Range(1, 65_536),
        "max_degree": Range(1, 2**31),
        "dropout": Range(0.0, 1.0),
        "means": Range(-1e30, 1e30, entries=10**6),
        "deviations": Range(1e-30, 1e30, entries=10**6),
    }

    num_classes: int
    _: KW_ONLY
    dual: str = DualKind.SINGLE.value
    features: FeatureSet = "multiscale"
    channels: tuple[int, ...]
    keep: tuple[float | None, ...]
    heads: int = 1
    skips: int = 1
    norm: NormName = "batch"
    groups: int | None = None
    max_degree: int | None = 64
    activation: bool = False
    self_term: bool = True
    coupling: bool = False
    dropout: float
    area_weighted: bool = True
    sizes: tuple[SizeName, ...] = ()
    inputs: tuple[str, ...] = ()
    means: tuple[float, ...] = ()
    deviations: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        DualKind(self.dual)
        if len(set(self.inputs)) < len(self.inputs):
            raise ValueError(f"inputs must have different names, got {self.inputs}")
        numbers = len(self.means), len(self.deviations)
        if numbers not in {(0, 0), (self.num_classes, self.num_classes)}:
            raise ValueError(
                f"means and deviations must be of {self.num_classes} outputs, got {numbers}"
            )


class MeshModel(SavedConfig):
    """Base class that builds graphs with invariant features and standardizes them."""

    config_type: ClassVar[type[Any]]

    def __init__(
        self,
        config: Any,  # an instance of `config_type`, stored as `model.config`
    ) -> None:
        check_config(config, self.config_type)
        super().__init__()
        self.config = config
        self.dual_kind = DualKind(config.dual)
        self._kind = (self.dual_kind, config.features, config.sizes, config.inputs)
        self._widths = feature_channels(*self._kind)
        self.standardize_primal, self.standardize_dual = map(Standardize, self._widths)

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
        """Build the graph of a mesh, reusable, with the features and dtype of this model."""
        config, dtype = self.config, self.standardize_primal.mean.dtype
        return PrimalDualGraph.from_mesh(
            mesh, *self._kind[:2], sizes=config.sizes, inputs=config.inputs, dtype=dtype
        )

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
        """Return attention and clusters of the original faces of meshes, in evaluation mode."""
        # Attention by block, of the last convolution, relative to 1 for uniform attention;
        # clusters by pooling step.
        graph, _ = self._standardized(self._as_graph(shapes))
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

    def _encoder(self, widths: Sequence[int]) -> tuple[nn.ModuleList, tuple[int, int]]:
        """Build blocks of given widths per head with their pooling; return their channels, too."""
        config = self.config
        aggregation: Aggregation = "area" if config.area_weighted else "mean"
        channels = self._widths[0] - len(config.sizes), self._widths[1]
        blocks = nn.ModuleList()
        for width, keep in zip(widths, config.keep, strict=True):
            pool = None
            if keep is not None:
                pool = EdgePool(keep, max_degree=config.max_degree, aggregation=aggregation)
            block = ResidualBlock(
                channels, (width, width), skips=config.skips, norm=config.norm,
                groups=config.groups, pool=pool, heads=config.heads, **self._conv_options(),
            )  # fmt: skip
            blocks.append(block)
            channels = block.out_channels
        return blocks, channels

    def _conv_options(self) -> dict[str, Any]:
        """Return the options of all convolutions."""
        return {n: getattr(self.config, n) for n in ("activation", "self_term", "coupling")}

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

    def _in_units(self, outputs: Tensor) -> Tensor:
        """Return logits unchanged, and values of a regression in the units of its targets."""
        if not self.config.means:
            return outputs
        means, deviations = map(outputs.new_tensor, (self.config.means, self.config.deviations))
        return outputs * deviations + means

    def _check_kind(self, graph: PrimalDualGraph) -> None:
        """Raise unless a graph has the dual kind and the features of the configuration."""
        check_graph(graph)
        if graph.kind != self._kind:
            wanted, given = (
                f"{dual.value} graphs with {' + '.join((features, *sizes, *inputs))} features"
                for dual, features, sizes, inputs in (self._kind, graph.kind)
            )
            raise ValueError(
                f"the model expects {wanted}, got {given}; build them with model.graph(mesh)"
            )

    def _standardized(self, graph: PrimalDualGraph) -> tuple[PrimalDualGraph, Tensor]:
        """Validate a graph; return its standardized features and, apart, sizes (meshes, sizes)."""
        self._check_kind(graph)
        for name, width in zip(("x_primal", "x_dual"), self._widths, strict=True):
            check_shape(getattr(graph, name), f"graph.{name}", ("nodes", width))
        device = self.standardize_primal.mean.device
        if graph.x_primal.device != device:
            raise ValueError(
                f"graph must be on {device} as the model is, got {graph.x_primal.device}: graph.to"
            )
        if torch.compiler.is_exporting():  # packages do not compare constants
            known = (graph.primal_batch < graph.num_graphs).all()
            check_in_program(known, f"graph must be of {graph.num_graphs} meshes, got more")
        # Norms over the faces of a batch would mix the sizes of its meshes: only heads read sizes.
        number = len(self.config.sizes)
        widths = [graph.x_primal.shape[1] - number, number]
        x_primal, own = self.standardize_primal(graph.x_primal).split(widths, dim=1)
        sizes = own.new_zeros(graph.num_graphs, 0)
        if number:
            sizes = group_mean(own, graph.primal_batch, graph.num_graphs)
        return graph.with_features(x_primal, self.standardize_dual(graph.x_dual)), sizes


def hidden_layer(
    width: int,
    sizes: int,  # further inputs, the last ones
    hidden: int,
) -> nn.Linear:
    """Build a linear layer whose few sizes weigh as much as all other inputs."""
    layer = nn.Linear(width + sizes, hidden)
    if sizes:
        nn.init.uniform_(layer.weight[:, width:], -1, 1)
    return layer


@dataclass(frozen=True, eq=False, repr=False)
class Inspection:
    """Attention and clusters of the input faces."""

    attention: tuple[Tensor, ...]  # (faces,) per block
    clusters: tuple[Tensor, ...]  # (faces,) int64 per pooling step

    def __repr__(self) -> str:
        counts = [int(level.max()) + 1 if len(level) else 0 for level in self.clusters]
        faces = len(self.attention[0]) if self.attention else 0
        return f"Inspection(faces={faces}, blocks={len(self.attention)}, clusters={counts})"


def received_attention(
    graph: PrimalDualGraph,
    attention: Tensor,  # (primal edges, heads), summing to 1 over edges into a face
) -> Tensor:
    """Return the attention that each face receives relative to uniform attention, (faces,)."""
    check_shape(attention, "attention", (graph.primal.num_edges, "heads"))
    source, target = graph.primal.edge_index
    zero = attention.new_zeros(graph.num_primal)
    number = count_indices(target, graph.num_primal).to(attention.dtype)
    # r_j = sum_i alpha_{i<-j} / sum_i 1 / d_i, with d_i neighbors of i; 1 without neighbors.
    received = zero.index_add(0, source, attention.mean(dim=1))
    even = zero.index_add(0, source, number.reciprocal()[target])
    return torch.where(even > 0, received / even, 1.0)


def face_to_element_means(
    graph: PrimalDualGraph,
    x: Tensor,  # (faces, channels)
    elements: Elements,
    *,
    area_weighted: bool = False,  # whether faces are weighted by area
) -> Tensor:
    """Average face features at each face, edge, vertex or mesh, (elements, channels)."""
    if elements == "faces":
        return x
    face, surface = None, graph.surface
    if elements == "mesh":
        group, size = graph.primal_batch, graph.num_graphs
    elif surface is None:
        raise ValueError(f"a graph of adjacencies alone has no {elements} for outputs")
    elif elements == "vertices":  # those without faces get zero
        group, size = surface.faces.reshape(-1), surface.vertices.shape[0]
        face = torch.arange(group.shape[0], device=group.device) // 3
    else:  # a boundary edge has its face twice, which does not change the mean
        face = edge_faces(surface).reshape(-1)
        size = face.shape[0] // 2
        group = torch.arange(face.shape[0], device=face.device) // 2
    weight = None
    if area_weighted:
        if graph.shares is None:
            raise ValueError("a graph of adjacencies alone has no areas to weigh its features by")
        weight = graph.shares.primal if face is None else graph.shares.primal[face]
    return group_mean(x if face is None else x.index_select(0, face), group, size, weight)


def adjacency_means(graph: PrimalDualGraph) -> Tensor:
    """Average the features of the adjacencies of each face, (primal nodes, dual channels)."""
    x = graph.x_dual
    if graph.dual is not DualKind.SINGLE:
        x = x.unflatten(0, (-1, 2)).mean(dim=1)
    total = x.new_zeros(graph.num_primal, x.shape[1])
    for end in graph.undirected.unbind(1):  # not at once, which would copy the features
        total = total.index_add(0, end, x)
    number = count_indices(graph.undirected.reshape(-1), graph.num_primal)
    return total / number.clamp_min(1)[:, None].to(x.dtype)


def edge_faces(surface: Surface) -> Tensor:
    """Return the two faces of each edge (edges, 2), the same face twice at a boundary."""
    half_edge = torch.arange(3 * surface.faces.shape[0], device=surface.faces.device)
    twin = half_edge.clone()
    twin[surface.pairs[:, 0]] = surface.pairs[:, 1]
    # The other side of a pair is no edge of its own.
    first = torch.ones_like(half_edge, dtype=torch.bool)
    first[surface.pairs[:, 1]] = False
    one = half_edge[first]
    start, end = surface.faces.reshape(-1), surface.faces.roll(-1, dims=1).reshape(-1)
    lower, higher = torch.minimum(start, end)[one], torch.maximum(start, end)[one]
    faces = torch.stack((one, twin[one]), dim=1) // 3
    # Edges are sorted by lower and higher vertex as rows of trimesh's `edges_unique`, equal edges
    # by their lowest face.
    # Stable sorts from the last key to the first.
    order = torch.argsort(faces[:, 0], stable=True)
    for key in (higher, lower):
        order = order[torch.argsort(key[order], stable=True)]
    return faces[order]
