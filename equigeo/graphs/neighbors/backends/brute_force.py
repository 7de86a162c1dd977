"""Reference implementation of neighbour lists: all pairs and images, without wrapping or boxes."""

from __future__ import annotations

from typing import Final

import numpy as np

from equigeo.graphs.neighbors.lattice import complete_cell, heights
from equigeo.graphs.neighbors.memory import check_size
from equigeo.graphs.neighbors.point_system import Candidates, Integers, PointSystem

_AT_ONCE: Final = 2**20  # pairs


def brute_force(system: PointSystem) -> Candidates:
    """Return all pairs and images within about the cutoff, unsorted."""
    x, cell, cutoff = system.positions, system.cell, system.cutoff
    images = _images(system)
    count = len(x)
    check_size(float(count) ** 2 * len(images), 1)
    per_step = max(_AT_ONCE // max(count**2, 1), 1)
    found = []
    difference = x[None, :] - x[:, None]
    bound = (cutoff * (1 + 1e-9)) ** 2
    for start in range(0, len(images), per_step):
        n = images[start : start + per_step]
        # The order of sums is that of the predicate, so that both round equally.
        moved = n.astype(np.float64)[:, :, None] * cell
        vectors = difference + moved.sum(axis=1)[:, None, None]
        near = (vectors * vectors).sum(axis=-1) < bound
        image, source, target = np.nonzero(near)
        found.append((np.stack([source, target]), n[image].T))
    pairs, shift = (np.concatenate(parts, axis=1) for parts in zip(*found, strict=True))
    return Candidates(pairs, shift if system.pbc.any() else None)


def _images(system: PointSystem) -> Integers:
    """Return every image n for which a pair can be near, (images, dim)."""
    if not system.pbc.any():
        return np.zeros((1, system.positions.shape[1]), np.int64)
    cell = complete_cell(system.cell, system.pbc)
    # An edge has |f + n| h < cutoff along every axis, with fractional difference f and cell height
    # h; lengths of lattice vectors do not matter.
    fractions = system.positions @ np.linalg.inv(cell)
    spread = np.ptp(fractions, axis=0) if len(fractions) else np.zeros(len(cell))
    most = np.where(system.pbc, system.cutoff / heights(cell) + spread, 0.0) * (1 + 1e-9) + 1e-9
    check_size(float(np.prod(2 * np.floor(most) + 1)), len(cell))
    axes = [np.arange(-int(m), int(m) + 1) for m in most]
    return np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(cell))
