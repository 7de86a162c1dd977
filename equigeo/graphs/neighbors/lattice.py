"""Lattices: short vectors that span the same one, and a third dimension where there is none."""

from __future__ import annotations

from itertools import product
from typing import Final

import numpy as np

from equigeo.graphs.neighbors.point_system import Doubles, Integers

_MOST_STEPS: Final = 1000  # each makes the longest vector shorter; dozens suffice for any cell
_SHORTER: Final = 1 - 1e-9  # of squares: less than that may be rounding, and would never end
_LARGEST: Final = 2**52  # of coefficients: doubles hold them, and sums of a few


def reduce_lattice(vectors: Doubles) -> Integers:
    """Find short vectors that span the same lattice, by Semaev's algorithm.

    Parameters
    ----------
    vectors : ndarray, (k, dim), float64
        Up to three independent lattice vectors.

    Returns
    -------
    ndarray, (k, k), int64
        Unimodular: ``result @ vectors`` are short, and as good as perpendicular where they can
        be. The identity where the given ones are short already, whatever their order.

    References
    ----------
    I. Semaev, A 3-dimensional lattice reduction algorithm, CaLC 2001.

    Examples
    --------
    >>> reduce_lattice(np.array([[1.0, 0.0], [7.0, 1.0]])).tolist()
    [[1, 0], [-7, 1]]
    >>> reduce_lattice(np.array([[2.0, 0.0], [0.0, 1.0]])).tolist()
    [[1, 0], [0, 1]]
    """
    start = np.eye(len(vectors), dtype=np.int64)
    basis = start
    for _ in range(_MOST_STEPS):
        reduced = basis @ vectors
        order = np.argsort((reduced * reduced).sum(axis=1), kind="stable")
        step = _shorten(reduced[order])
        if step is None or np.abs(step).astype(float).max() * np.abs(basis).max() > _LARGEST:
            break
        basis = step @ basis[order]
    return basis


def _shorten(vectors: Doubles) -> Integers | None:
    """Subtract from one vector shorter ones, (k, k), if that makes it shorter."""
    for k in range(1, len(vectors)):
        shorter, vector = vectors[:k], vectors[k]
        guess = np.rint(np.linalg.lstsq(shorter.T, vector, rcond=None)[0])
        offsets = np.array([*product((0, -1, 1), repeat=k)])
        choices = guess + offsets
        left = vector - choices @ shorter
        squares = (left * left).sum(axis=1)
        best = int(squares.argmin())
        if squares[best] < _SHORTER * (vector @ vector) and np.abs(choices[best]).max() < _LARGEST:
            step = np.eye(len(vectors), dtype=np.int64)
            step[k, :k] = -choices[best].astype(np.int64)
            return step
    return None


def complete_cell(cell: Doubles, periodic: np.ndarray) -> Doubles:
    """Replace the vectors of axes that are not periodic by a right angle and length one.

    Parameters
    ----------
    cell : ndarray, (3, 3), float64
        Periodic rows are independent; the others mean nothing.
    periodic : ndarray, (3,), bool
        Which rows count.

    Returns
    -------
    ndarray, (3, 3), float64
        The same periodic rows; the others are orthonormal, and perpendicular to all.

    Examples
    --------
    >>> complete_cell(np.array([[0.0, 2, 0], [5, 5, 5], [0, 0, 3]]), np.array([True, False, True]))
    array([[0., 2., 0.],
           [1., 0., 0.],
           [0., 0., 3.]])
    """
    complete = cell.copy()
    (missing,) = np.nonzero(~periodic)
    if len(missing) == len(cell):
        return np.eye(len(cell))
    # Of lengths one, so that no scale decides what is a direction.
    rows = cell[periodic] / np.abs(cell[periodic]).max(axis=1, keepdims=True)
    normals = np.linalg.svd(rows)[2][len(rows) :]
    # Which way they point is free: as the axes do, so that simple cells look simple.
    largest = np.abs(normals).argmax(axis=1)
    signs = np.sign(np.take_along_axis(normals, largest[:, None], axis=1))
    complete[missing] = normals * signs + 0.0
    return complete


def heights(cell: Doubles) -> Doubles:
    """Measure the distances between opposite faces of a cell.

    Parameters
    ----------
    cell : ndarray, (dim, dim), float64
        Rows are independent.

    Returns
    -------
    ndarray, (dim,), float64
        Never more than the lengths of the rows.

    Examples
    --------
    >>> heights(np.array([[1.0, 0.0], [7.0, 2.0]])).round(6).tolist()
    [0.274721, 2.0]
    """
    sizes = np.abs(cell).max(axis=1)
    # Rows of similar size, lest the inverse overflows.
    inverse = np.linalg.inv(cell / sizes[:, None])
    return sizes / np.linalg.norm(inverse, axis=0)
