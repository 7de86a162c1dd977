"""Rows of the layers of :mod:`equigeo.mesh`, :mod:`equigeo.mds` and :mod:`equigeo.potentials`."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from equigeo import mds, mesh, points, potentials
from equigeo.groups import SO
from equigeo.reps import Irreps, Points
from tests.mesh import shapes
from tests.modes.row import Row, beside, randn

MOLECULE = (
    torch.tensor([8, 1, 1, 6]),
    torch.tensor([[0.0, 0.1, 0.0], [0.8, 0.6, 0.1], [-0.8, 0.6, -0.2], [0.3, -1.1, 0.4]]).double(),
    None,
    False,
)


def potential_rows() -> list[Row]:
    batch = potentials.AtomicBatch.from_systems([MOLECULE] * 2, 2.5, dtype=torch.float64)
    config = potentials.PotentialConfig((1, 6, 8), 2.5, channels=2, lmax_edge=1, radial_hidden=(4,))

    def energies(model: Any, positions: Tensor) -> Tensor:
        found: Tensor = model.energies(beside(batch, positions).with_positions(positions))
        return found.to(positions.dtype)  # energies are in float64 whatever positions are in

    return [
        Row(
            "potentials.MessagePassingPotential",
            lambda: potentials.MessagePassingPotential(config),
            lambda: (batch.positions.clone(),),
            energies,
            rows=False,
        )
    ]


def mesh_rows() -> list[Row]:
    graph = mesh.PrimalDualGraph.from_mesh(shapes.icosahedron(), mesh.DualKind.SINGLE)
    faces, edges = graph.x_primal.shape[0], graph.x_dual.shape[0]
    pairs = graph.primal.num_edges
    wide = mesh.PrimalDualGraph.from_mesh(shapes.icosahedron(), features="multiscale")

    def conv(layer: nn.Module, x_primal: Tensor, x_dual: Tensor) -> Any:
        return layer(beside(graph, x_primal), x_primal, x_dual)

    def block(layer: nn.Module, x_primal: Tensor, x_dual: Tensor) -> Any:
        found, _ = layer(beside(graph, x_primal), x_primal, x_dual)
        return found.x_primal, found.x_dual

    def pool(layer: nn.Module, x_primal: Tensor, x_dual: Tensor) -> Any:
        # Which edges go is a choice; features are what depends on features.
        score = torch.linspace(0, 1, pairs, dtype=x_primal.dtype, device=x_primal.device)
        found, _ = layer(beside(graph, x_primal).with_features(x_primal, x_dual), score[:, None])
        return found.x_primal, found.x_dual

    def classify(layer: nn.Module, x_primal: Tensor, x_dual: Tensor) -> Any:
        return layer(beside(wide, x_primal).with_features(x_primal, x_dual))

    def mesh_conv() -> nn.Module:
        options = {"bias": True, "self_term": True, "coupling": True}
        return mesh.PrimalDualConv((3, 4), (2, 5), heads=2, **options)

    def field_conv() -> nn.Module:
        fields = (Irreps("1o"), Irreps("0e + 1o")), (Irreps("0e + 1o"), Irreps("2x0e"))
        return mesh.PrimalDualFieldConv(*fields, hidden=3, vectors=2)

    def classifier() -> nn.Module:
        config = mesh.ClassifierConfig(3, channels=(4, 4), keep=(None, 0.8))
        return mesh.PrimalDualClassifier(config)

    def segmenter() -> nn.Module:
        return mesh.PrimalDualSegmenter(mesh.SegmenterConfig(3, channels=(4, 4), keep=(0.9,)))

    narrow = 3, 4
    widths = wide.x_primal.shape[1], wide.x_dual.shape[1]
    return [
        Row(f"mesh.{name}", make, randn((faces, dims[0]), (edges, dims[1])), call, rows=False)
        for name, make, dims, call in (
            ("PrimalDualConv", mesh_conv, narrow, conv),
            ("PrimalDualFieldConv", field_conv, narrow, conv),
            ("ResidualBlock", lambda: mesh.ResidualBlock(narrow, narrow), narrow, block),
            ("EdgePool", lambda: mesh.EdgePool(0.7), narrow, pool),
            ("PrimalDualClassifier", classifier, widths, classify),
            ("PrimalDualSegmenter", segmenter, widths, classify),
        )
    ]


def attention_rows() -> list[Row]:
    mask = mesh.attention_mask(shapes.octahedron(), tokens=1)

    def make() -> nn.Module:
        return mesh.MaskedAttention("2x0e + 1o", "0e + 1o", "0e + 1o", heads=2, channels=3)

    def attend(layer: nn.Module, x: Tensor, x_edge: Tensor) -> Any:
        return layer(x, beside(mask, x), x_edge)

    inputs = randn((7, 5), (mask.num_edges, 4))
    return [Row("mesh.MaskedAttention", make, inputs, attend, rows=False)]


def cloud_rows() -> list[Row]:
    small = {"dropout": 0.0, "hidden": (6, 5)}
    plus, clouds = ((6, 3), 4, ((4, 5), (5, 6)), 6), randn((2, 12, 3))
    networks: dict[str, Callable[[], nn.Module]] = {
        "mds.Invariant": lambda: mds.Invariant(_PointMLP()),
        "points.DGCNN": lambda: points.DGCNN(3, widths=(4, 5), neighbors=4, features=6, **small),
        "points.PointNet": lambda: points.PointNet(3, widths=(4, 6), **small),
        "points.PointNetPlusPlus": lambda: points.PointNetPlusPlus(3, *plus, **small),
        "points.PointTransformer": lambda: points.PointTransformer(3, (6, 3), 4, 8, 2, 6, **small),
        "mds.InvariantPointNet": lambda: mds.InvariantPointNet(mds.InvariantPointNetConfig(3)),
    }
    config = mds.AttentionModelConfig("mds", 8, 2, 1, 16)
    return [
        Row("mds.embed", nn.Identity, clouds, lambda _, x: mds.embed(x).y),
        # An average that is the same for any number of frames: coarse dtypes have more.
        Row(
            "mds.frames",
            nn.Identity,
            clouds,
            lambda _, x: mds.frame_average(torch.square, mds.frames(x)),
            rows=False,
        ),
        *(Row(name, make, clouds) for name, make in networks.items()),
        Row("mds.Canonicalized", _canonicalized, randn((2, 4, 3))),
        Row(
            "mds.AttentionModel",
            lambda: mds.AttentionModel(config),
            randn((2, 7, 2)),
            lambda layer, cities: layer(cities).log_prob,
        ),
    ]


def _canonicalized() -> nn.Module:
    energy = nn.Sequential(_PointMLP(), nn.Linear(4, 1), nn.Flatten(0))
    return mds.Canonicalized(_PointMLP(), energy, Points(SO(3)), starts=2, steps=12)


class _PointMLP(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(3, 4)

    def forward(self, points: Tensor) -> Tensor:
        return torch.tanh(self.inner(points)).mean(-2)
