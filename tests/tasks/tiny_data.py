"""A data set of a few small closed surfaces, in memory or as a folder in the MeshCNN layout."""

from pathlib import Path

import numpy as np
import torch
import trimesh

from equigeo.datasets import MeshDataset
from equigeo.mesh import TriangleMesh

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
