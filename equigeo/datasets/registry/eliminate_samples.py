"""Blue-noise samples of a surface by weighted sample elimination."""

from __future__ import annotations

import heapq
import math

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree

Array = NDArray[np.float64]

CANDIDATES = 5
"""Random points for every one that is kept, as in the recorded clouds."""

_ALPHA, _BETA, _GAMMA = 8, 0.65, 1.5  # of Yuksel's weights


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
    pairs = cKDTree(points).query_pairs(radius, output_type="ndarray")
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
