"""A data set of a few balls whose halves are parts, in memory."""

from __future__ import annotations

from dataclasses import replace

import torch

from equigeo.datasets import SegmentedMeshDataset
from equigeo.mesh import PrimalDualSegmenter
from equigeo.tasks.mesh_segmentation import SEGMENTATION_RECIPES, SegmentationConfig
from tests.mesh import shapes


def halves(train: int = 4, test: int = 2) -> SegmentedMeshDataset:
    """Drops: a ball with a tip, told from the rest by its distance from the centre."""
    meshes, labels = [], []
    for seed in range(train + test):
        ball = shapes.icosphere(1)
        far = 1 + 0.1 * (seed % 3) + ball.vertices[:, 2:].clamp_min(0)
        mesh = shapes.mesh(ball.vertices * far, ball.faces)
        meshes.append(shapes.turned(mesh, seed))
        labels.append((mesh.vertices[mesh.faces].mean(dim=1)[:, 2] > 0.5).long())
    labels[0][:7] = -1  # nobody has said
    return SegmentedMeshDataset(
        meshes=tuple(meshes),
        labels=tuple(labels),
        classes=("rest", "tip"),
        names=tuple(f"drop {k}" for k in range(train + test)),
        in_train=torch.arange(train + test) < train,
    )


def short_config(epochs: int = 60, resolutions: tuple[float, ...] = ()) -> SegmentationConfig:
    recipe = replace(
        SEGMENTATION_RECIPES["default"], epochs=epochs, batch_size=4, resolutions=resolutions
    )
    return SegmentationConfig("memory", recipe=recipe)


def small_model() -> PrimalDualSegmenter:
    torch.manual_seed(0)
    return PrimalDualSegmenter.preset("default", 2, channels=(8, 16), keep=(0.7,))
