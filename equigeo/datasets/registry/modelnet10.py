"""Conversion of ModelNet10's meshes to point clouds."""

from __future__ import annotations

import heapq
import json
import math
import re
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import scipy
from numpy.typing import NDArray

from equigeo.datasets.cache import save_arrays
from equigeo.datasets.class_folders import data_folder
from equigeo.datasets.registry.catalogue import MODELNET_CLASSES
from equigeo.mesh import MeshError
from equigeo.mesh.io.read_mesh_file import read_mesh_file

Array = NDArray[np.float64]
CANDIDATES = 5
"""Random points for every one that is kept, as in the recorded clouds."""
_ALPHA, _BETA, _GAMMA = 8, 0.65, 1.5  # of Yuksel's weights
POINTS = 1024
PARTS = {"train": "modelnet10_train.npz", "test": "modelnet10_test_a.npz"}
LARGEST = 32767  # of int16: coordinates are fractions of half the largest side
_NAME = re.compile(r"_(\d+)\.off", re.IGNORECASE)
Progress = Callable[[int, int], None]
FIRST_HALF: Final = {
    name: frozenset(numbers)
    for name, numbers in json.loads(Path(__file__).with_suffix(".json").read_text("utf-8")).items()
}
"""Numbers in the names of the files, by class; 454 of 908."""


def surface_samples(
    corners: Array,  # (triangles, 3, 3)
    number: int,
    random: np.random.Generator,
    candidates: int = CANDIDATES,  # uniform points per sample
) -> Array:
    """Sample blue-noise points on triangles, (number, 3)."""
    a, b, c = corners[:, 0], corners[:, 1], corners[:, 2]
    areas = np.linalg.norm(np.cross(b - a, c - a), axis=1) / 2
    total = float(areas.sum())
    if not (math.isfinite(total) and total > 0):
        raise ValueError(f"the triangles must have an area, got {total}")
    # Yuksel, "Sample elimination for generating Poisson disk sample sets", 2015.
    chosen = random.choice(len(areas), candidates * number, p=areas / total)
    root, along = np.sqrt(random.random((len(chosen), 1))), random.random((len(chosen), 1))
    weights = (1 - root, root * (1 - along), root * along)
    points = sum(w * x[chosen] for w, x in zip(weights, (a, b, c), strict=True))
    return np.asarray(points)[_spread(np.asarray(points), number, total)]


def _spread(points: Array, number: int, area: float) -> NDArray[np.int64]:
    """Remove the most crowded point repeatedly."""
    if number >= len(points):
        return np.arange(len(points))
    radius = 2 * math.sqrt(area / number / (2 * math.sqrt(3)))
    least = radius * _BETA * (1 - (number / len(points)) ** _GAMMA)
    pairs = scipy.spatial.cKDTree(points).query_pairs(radius, output_type="ndarray")
    distances = np.linalg.norm(points[pairs[:, 0]] - points[pairs[:, 1]], axis=1)
    shares = (1 - np.maximum(distances, least) / radius) ** _ALPHA
    weights = np.bincount(pairs.ravel(), np.repeat(shares, 2), len(points)).tolist()
    neighbors: list[list[tuple[int, float]]] = [[] for _ in points]
    for (i, j), share in zip(pairs.tolist(), shares.tolist(), strict=True):
        neighbors[i].append((j, share))
        neighbors[j].append((i, share))
    heap = [(-weight, k) for k, weight in enumerate(weights)]
    heapq.heapify(heap)
    is_left = np.ones(len(points), dtype=np.bool_)
    left = len(points)
    while left > number:
        weight, k = heap[0]
        if -weight > weights[k]:  # out of date: weights only become smaller
            heapq.heapreplace(heap, (-weights[k], k))
            continue
        heapq.heappop(heap)
        is_left[k] = False
        left -= 1
        for j, share in neighbors[k]:
            weights[j] -= share
    return np.flatnonzero(is_left)


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
    root = data_folder(source, lambda folder: (folder / MODELNET_CLASSES[0]).is_dir())
    shapes = list(_shapes(root, source))
    clouds = []
    for k, shape in enumerate(shapes):
        clouds.append(_sampled(shape, points))
        if progress is not None:
            progress(k + 1, len(shapes))
    for part, name in PARTS.items():
        rows = [k for k, shape in enumerate(shapes) if shape.part == part]
        save_arrays(target / name, _arrays([shapes[k] for k in rows], [clouds[k] for k in rows]))
    return list(PARTS.values())


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
        triangles, _ = mesh.triangles()
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
        "points": np.rint(fractions * LARGEST).astype(np.int16),
        "center": center.astype(np.float32),
        "scale": scale.astype(np.float32),
        "label": np.array([shape.label for shape in shapes], dtype=np.uint8),
        "index": np.array([shape.number for shape in shapes], dtype=np.int16),
        "classes": np.array(MODELNET_CLASSES),
    }
