"""Conversion of ModelNet10's meshes to point clouds."""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from equigeo.datasets.data_folder import data_folder
from equigeo.datasets.registry.data_sets import MODELNET_CLASSES
from equigeo.datasets.registry.eliminate_samples import surface_samples
from equigeo.datasets.registry.modelnet10_half import FIRST_HALF
from equigeo.datasets.save_arrays import save_arrays
from equigeo.mesh import MeshError
from equigeo.mesh.io.read_mesh_file import read_mesh_file

POINTS = 1024
PARTS = {"train": "modelnet10_train.npz", "test": "modelnet10_test_a.npz"}
_LARGEST = 32767  # of int16
_NAME = re.compile(r"_(\d+)\.off", re.IGNORECASE)

Progress = Callable[[int, int], None]


class _Shape(NamedTuple):
    path: Path
    label: int
    number: int
    part: str


def convert_modelnet10(
    source: Path,  # ModelNet10.zip or its folder
    target: Path,
    progress: Progress | None = None,  # called with (done, total) shapes
    points: int = POINTS,  # per cloud
) -> list[str]:
    """Sample the meshes, about 0.5 s each, and return the names of the two written files."""
    shapes = list(_shapes(data_folder(source, _has_layout), source))
    clouds = []
    for k, shape in enumerate(shapes):
        clouds.append(_sampled(shape, points))
        if progress is not None:
            progress(k + 1, len(shapes))
    for part, name in PARTS.items():
        rows = [k for k, shape in enumerate(shapes) if shape.part == part]
        save_arrays(target / name, _arrays([shapes[k] for k in rows], [clouds[k] for k in rows]))
    return list(PARTS.values())


def _has_layout(folder: Path) -> bool:
    return (folder / MODELNET_CLASSES[0]).is_dir()


def _shapes(root: Path, given: Path) -> Iterator[_Shape]:
    for label, name in enumerate(MODELNET_CLASSES):
        for part in ("train", "test"):
            paths = sorted((root / name / part).glob("*.[oO][fF][fF]"))
            if not paths:
                raise ValueError(
                    f"{given}: found no {name}/{part}/*.off; expected the archive of ModelNet10"
                )
            for path in paths:
                match = _NAME.search(path.name)
                if match is None:
                    raise ValueError(f"{path}: expected a name such as {name}_0001.off")
                number = int(match[1])
                if part == "train" or number in FIRST_HALF[name]:
                    yield _Shape(path, label, number, part)


def _sampled(shape: _Shape, points: int) -> NDArray[np.float64]:
    name = f"modelnet10/{MODELNET_CLASSES[shape.label]}"
    seed = np.random.SeedSequence([0, zlib.crc32(name.encode()), shape.number])
    try:
        mesh = read_mesh_file(shape.path)
        triangles, _ = mesh.fan_triangles()
        corners = np.asarray(mesh.vertices, dtype=np.float64)[triangles]
        return surface_samples(corners, points, np.random.default_rng(seed))
    except (MeshError, ValueError) as error:
        raise ValueError(f"{shape.path}: cannot be sampled: {error}") from error


def _arrays(shapes: list[_Shape], clouds: list[Any]) -> dict[str, NDArray[np.generic]]:
    stacked = np.stack(clouds) if clouds else np.zeros((0, POINTS, 3))
    low, high = stacked.min(1, initial=np.inf), stacked.max(1, initial=-np.inf)
    center, scale = (low + high) / 2, ((high - low) / 2).max(1)
    fractions = (stacked - center[:, None]) / scale[:, None, None]
    return {
        "points": np.rint(fractions * _LARGEST).astype(np.int16),
        "center": center.astype(np.float32),
        "scale": scale.astype(np.float32),
        "label": np.array([shape.label for shape in shapes], dtype=np.uint8),
        "index": np.array([shape.number for shape in shapes], dtype=np.int16),
        "classes": np.array(MODELNET_CLASSES),
    }
