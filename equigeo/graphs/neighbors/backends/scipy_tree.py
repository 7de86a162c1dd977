"""Neighbours by a k-d tree of scipy, over the points and those of their images that can be near."""

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
    """List pairs within the cut-off of a box.

    Parameters
    ----------
    box : SearchBox
        Points inside a compact cell.

    Returns
    -------
    Candidates
        In no particular order.

    Examples
    --------
    >>> from equigeo.graphs.neighbors.point_system import PointSystem
    >>> from equigeo.graphs.neighbors.search_box import search_box
    >>> ring = PointSystem(np.array([[0.0], [0.6]]), np.eye(1), np.array([True]), 0.5)
    >>> found = scipy_tree(search_box(ring))
    >>> sorted(zip(*found.pairs.tolist(), *found.shift.tolist()))
    [(0, 1, -1), (1, 0, 1)]
    """
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
    """Search from the points alone, where most pairs would be those of two images."""
    near = plain_tree(box.points).sparse_distance_matrix(
        plain_tree(points), box.cutoff, output_type="ndarray"
    )
    count = len(box.points)
    everywhere = np.concatenate([np.arange(count), atom])
    shift = np.concatenate([np.zeros((count, image.shape[1]), np.int32), image])
    pairs = np.stack([near["i"], everywhere.take(near["j"])]).astype(np.int64, copy=False)
    return Candidates(pairs, np.ascontiguousarray(shift.take(near["j"], 0).T))


def plain_tree(points: Doubles) -> cKDTree:
    """Build a tree whose queries are as fast as of a balanced one, in half the time."""
    return cKDTree(points, balanced_tree=False, compact_nodes=False)


def with_images(box: SearchBox) -> tuple[Doubles, Integers, Shifts]:
    """Add all images of points that can be near to a point.

    Parameters
    ----------
    box : SearchBox
        Points inside a compact cell.

    Returns
    -------
    points : ndarray, (points + images, dim), float64
        The points themselves first.
    atom : ndarray, (images,), int64
        Which point each image is one of.
    shift : ndarray, (images, dim), int32
        Where it lies.

    Raises
    ------
    ValueError
        If there would be more than memory holds.
    """
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
