"""Neighbours by a SciPy k-d tree of the points and their possibly near images."""

from __future__ import annotations

from typing import Final

import numpy as np
from scipy.spatial import cKDTree

from equigeo.graphs.neighbors.lattice import heights
from equigeo.graphs.neighbors.memory import check_size
from equigeo.graphs.neighbors.point_system import Candidates, Doubles, Integers, Shifts
from equigeo.graphs.neighbors.search_box import SearchBox

# Images per point above which pairs of two images cost more than a search that lists none of them.
_MANY_IMAGES: Final = 3


def scipy_tree(box: SearchBox) -> Candidates:
    """Return pairs within the cutoff of a box, unsorted."""
    count = len(box.points)
    points, atom, image = with_images(box)
    if len(points) > _MANY_IMAGES * count:
        return _to_images(box, points, atom, image)
    first, second = plain_tree(points).query_pairs(box.cutoff, output_type="ndarray").T
    # The first of each pair comes first among the points: only pairs of two images begin with one.
    inside = second < count
    crossing = np.flatnonzero((first < count) & ~inside)
    near, far = first.take(crossing), second.take(crossing) - count
    if not inside.all():
        first, second = first[inside], second[inside]
    pairs = np.empty((2, 2 * len(first) + len(near)), np.int64)
    np.concatenate([first, second, near], out=pairs[0])
    np.concatenate([second, first, atom.take(far)], out=pairs[1])
    if not box.pbc.any():
        return Candidates(pairs, None)
    shift = np.zeros((image.shape[1], pairs.shape[1]), np.int32)
    for axis in np.nonzero(box.pbc)[0]:
        shift[axis, 2 * len(first) :] = image[:, axis].take(far)
    return Candidates(pairs, shift)


def _to_images(box: SearchBox, points: Doubles, atom: Integers, image: Shifts) -> Candidates:
    """Search from the points alone, for boxes where most pairs would join two images."""
    near = plain_tree(box.points).sparse_distance_matrix(
        plain_tree(points), box.cutoff, output_type="ndarray"
    )
    count = len(box.points)
    everywhere = np.concatenate([np.arange(count), atom])
    shift = np.concatenate([np.zeros((count, image.shape[1]), np.int32), image])
    pairs = np.stack([near["i"], everywhere.take(near["j"])]).astype(np.int64, copy=False)
    return Candidates(pairs, np.ascontiguousarray(shift.take(near["j"], 0).T))


def plain_tree(points: Doubles) -> cKDTree:
    """Build an unbalanced tree, twice as fast as a balanced one with equally fast queries."""
    return cKDTree(points, balanced_tree=False, compact_nodes=False)


def with_images(box: SearchBox) -> tuple[Doubles, Integers, Shifts]:
    """Append all images near any point; return points, the origin of each image, and its shift."""
    points, cell = box.points, box.cell
    dim = points.shape[1]
    count = len(points)
    atom = np.arange(count)
    shift = np.zeros((count, dim), np.int32)
    fractions = points @ np.linalg.inv(cell) if box.pbc.any() else points
    reach = box.cutoff / heights(cell) * (1 + 1e-9) + 1e-9
    for axis in np.nonzero(box.pbc)[0]:
        along = fractions[:, axis]
        low = np.ceil(along.min() - reach[axis] - along)
        copies = np.floor(along.max() + reach[axis] - along) - low + 1
        check_size(float(copies.take(atom).sum()), 3 * dim)
        repeats = copies.take(atom).astype(np.int64)
        before = np.repeat(repeats.cumsum() - repeats, repeats)
        step = np.arange(len(before)) - before
        atom, shift = np.repeat(atom, repeats), np.repeat(shift, repeats, axis=0)
        shift[:, axis] = low.take(atom) + step
    is_image = shift.any(axis=1)
    atom, shift = atom[is_image], shift[is_image]
    images = points.take(atom, 0) + shift.astype(np.float64) @ cell
    return np.concatenate([points, images]), atom, shift
