"""A few small closed surfaces, in memory or as a folder in the MeshCNN layout, and runs on them."""

from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch
import trimesh

from equigeo.datasets import MeshDataset
from equigeo.mesh import ClassifierConfig, PrimalDualClassifier, TriangleMesh
from equigeo.tasks.mesh_classification import MeshClassification, MeshConfig
from equigeo.training import Recipe
from equigeo.training.loop.module import L

CLASSES = ("ball", "capsule", "torus")


def _shape(label: int, number: int) -> trimesh.Trimesh:
    random = np.random.default_rng([label, number])
    mesh = (
        lambda: trimesh.creation.icosphere(1),
        lambda: trimesh.creation.capsule(3, 0.5, count=[6, 6]),
        lambda: trimesh.creation.torus(1, 0.35, 10, 6),
    )[label]()
    mesh.vertices = mesh.vertices + 0.02 * random.standard_normal(mesh.vertices.shape)
    return mesh


@cache
def tiny_dataset(train: int = 4, test: int = 2) -> MeshDataset:
    keys = [(c, n) for c in range(len(CLASSES)) for n in range(train + test)]
    shapes = [_shape(*key) for key in keys]
    return MeshDataset(
        meshes=tuple(
            TriangleMesh(torch.tensor(s.vertices), torch.tensor(s.faces, dtype=torch.long))
            for s in shapes
        ),
        labels=torch.tensor([c for c, _ in keys]),
        classes=CLASSES,
        names=tuple(f"{CLASSES[c]}/{n}" for c, n in keys),
        in_train=torch.tensor([n < train for _, n in keys]),
    )


def write_tiny_folder(folder: Path, train: int = 4, test: int = 2, classes=CLASSES) -> Path:
    for label, name in enumerate(classes):
        for number in range(train + test):
            part = folder / name / ("train" if number < train else "test")
            part.mkdir(parents=True, exist_ok=True)
            _shape(label, number).export(part / f"T{number}.obj")
    return folder


@pytest.fixture(scope="session")
def dataset():
    return tiny_dataset()


@pytest.fixture(scope="session")
def config():
    recipe = Recipe(epochs=3, batch_size=4, learning_rate=1e-2, jitter=0.02)
    return MeshConfig("memory", recipe=recipe)


def small_classifier(seed: int = 0) -> PrimalDualClassifier:
    """Build a small model whose initial weights depend on the seed alone; it pools, too."""
    with torch.random.fork_rng():
        torch.set_rng_state(torch.Generator().manual_seed(seed).get_state())
        return PrimalDualClassifier(
            ClassifierConfig(3, channels=(8, 8), keep=(0.7, None), dropout=0.3)
        )


class StopAfterTwo(L.Callback):
    """End the session after the second epoch."""

    def on_train_epoch_end(self, trainer, module):
        trainer.should_stop = trainer.current_epoch == 1


def assert_same_state(left, right):
    assert left.keys() == right.keys()
    for name, value in left.items():
        assert torch.equal(value, right[name]), name


def train_meshes(config, output, data=None, model=None, **options):
    """Train the small model on the tiny data, where no others are given."""
    data, model = data or tiny_dataset(), model or small_classifier()
    return MeshClassification().train(config, output, data=data, model=model, **options)
