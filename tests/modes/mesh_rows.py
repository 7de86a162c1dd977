"""Rows of the layers of :mod:`equigeo.mesh`."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from equigeo import mesh
from equigeo.reps import Irreps
from tests.mesh import shapes
from tests.modes.row import Row, beside, randn


def mesh_rows() -> list[Row]:
    graph = mesh.PrimalDualGraph.from_mesh(shapes.icosahedron(), mesh.DualKind.SINGLE)
    faces, edges = graph.x_primal.shape[0], graph.x_dual.shape[0]
    pairs = graph.primal.num_edges
    features = randn((faces, 3), (edges, 4))

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

    wide = mesh.PrimalDualGraph.from_mesh(shapes.icosahedron(), features="multiscale")
    widths = wide.x_primal.shape[1], wide.x_dual.shape[1]

    def classify(layer: nn.Module, x_primal: Tensor, x_dual: Tensor) -> Any:
        return layer(beside(wide, x_primal).with_features(x_primal, x_dual))

    def classifier() -> nn.Module:
        config = mesh.ClassifierConfig(3, channels=(4, 4), keep=(None, 0.8))
        return mesh.PrimalDualClassifier(config)

    def segmenter() -> nn.Module:
        config = mesh.SegmenterConfig(3, channels=(4, 4), keep=(0.9,))
        return mesh.PrimalDualSegmenter(config)

    return [
        Row(
            "mesh.PrimalDualConv",
            lambda: mesh.PrimalDualConv(
                (3, 4), (2, 5), heads=2, bias=True, self_term=True, coupling=True
            ),
            features,
            conv,
            "mesh.PrimalDualConv",
            rows=False,
        ),
        Row(
            "mesh.PrimalDualFieldConv",
            lambda: mesh.PrimalDualFieldConv(
                (Irreps("1o"), Irreps("0e + 1o")),
                (Irreps("0e + 1o"), Irreps("2x0e")),
                hidden=3,
                vectors=2,
            ),
            features,
            conv,
            "mesh.PrimalDualFieldConv",
            rows=False,
        ),
        Row(
            "mesh.ResidualBlock",
            lambda: mesh.ResidualBlock((3, 4), (3, 4)),
            features,
            block,
            "mesh.ResidualBlock",
            rows=False,
        ),
        Row(
            "mesh.EdgePool", lambda: mesh.EdgePool(0.7), features, pool, "mesh.EdgePool", rows=False
        ),
        Row(
            "mesh.PrimalDualClassifier",
            classifier,
            randn((faces, widths[0]), (edges, widths[1])),
            classify,
            "mesh.PrimalDualClassifier",
            rows=False,
        ),
        Row(
            "mesh.PrimalDualSegmenter",
            segmenter,
            randn((faces, widths[0]), (edges, widths[1])),
            classify,
            "mesh.PrimalDualSegmenter",
            rows=False,
        ),
    ]
