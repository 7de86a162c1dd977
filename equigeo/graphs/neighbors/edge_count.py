"""Number of edges of a search: a cheap bound and an exact count."""

from __future__ import annotations

from typing import Final

import numpy as np

from equigeo.graphs.neighbors.backends.scipy_tree import plain_tree, with_images
from equigeo.graphs.neighbors.lattice import heights
from equigeo.graphs.neighbors.memory import (
    ALWAYS_THERE,
    BYTES_PER_EDGE,
    available_bytes,
    check_size,
)
from equigeo.graphs.neighbors.search_box import SearchBox

_MOST_BINS: Final = 64  # along each of up to three axes: counts that a cache holds


def check_edge_count(box: SearchBox) -> None:
    """Raise before any large allocation if the edges of a search do not fit in memory."""
    images = np.where(box.pbc, 2 * np.ceil(box.cutoff / heights(box.cell)) + 1, 1.0)
    if float(len(box.points)) ** 2 * np.prod(images) * BYTES_PER_EDGE <= ALWAYS_THERE:
        return
    there = available_bytes()
    if there is not None and most_edges(box) * BYTES_PER_EDGE > there:
        check_size(float(count_pairs(box)), BYTES_PER_EDGE / 8, "edges")


def most_edges(box: SearchBox) -> float:
    """Bound the number of edges by point counts in bins of at least the cutoff."""
    # About six times the number of edges at uniform density.
    axes = min(box.points.shape[1], 3)
    ratio = heights(box.cell)[:axes] / box.cutoff
    bins = np.clip(np.floor(ratio), 1, _MOST_BINS).astype(np.int64)
    fractions = (box.points @ np.linalg.inv(box.cell))[:, :axes]
    where = np.clip(np.floor(fractions * bins), 0, bins - 1).astype(np.int64)
    flat = np.ravel_multi_index(tuple(where.T), tuple(bins))
    counts = np.bincount(flat, minlength=int(bins.prod())).reshape(bins).astype(np.float64)
    near = counts
    for axis in range(axes):
        if bins[axis] > 1:
            near = near + np.roll(near, 1, axis) + np.roll(near, -1, axis)
        elif box.pbc[axis]:
            near = near * (2 * np.ceil(1 / ratio[axis]) + 1)
    return float((counts * near).sum())


def count_pairs(box: SearchBox) -> int:
    """Count the directed pairs within the cutoff of a box without listing them."""
    points, _, _ = with_images(box)
    near = plain_tree(box.points).count_neighbors(plain_tree(points), box.cutoff)
    return int(near) - len(box.points)
