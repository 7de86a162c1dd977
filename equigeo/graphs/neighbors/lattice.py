"""Lattice reduction, and completion of cells with fewer than three periodic axes."""

from __future__ import annotations

from itertools import product
from typing import Final

import numpy as np

from equigeo.graphs.neighbors.point_system import Doubles, Integers

_MOST_STEPS: Final = 1000  # each makes the longest vector shorter; dozens suffice for any cell
_SHORTER: Final = 1 - 1e-9  # of squares: less than that may be rounding, and would never end
_LARGEST: Final = 2**52  # of coefficients: doubles hold them, and sums of a few


def reduce_lattice(
    vectors: Doubles,  # (k, dim), k <= 3, independent
) -> Integers:
    """Return a unimodular matrix (k, k) to short lattice vectors, the identity for short ones."""
    # I. Semaev, "A 3-dimensional lattice reduction algorithm", CaLC 2001.
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
    """Return a step (k, k) that shortens one vector by shorter ones, or None."""
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


def complete_cell(
    cell: Doubles,  # (3, 3)
    periodic: np.ndarray,  # (3,)
) -> Doubles:
    """Replace non-periodic rows by orthonormal ones, perpendicular to the periodic ones."""
    complete = cell.copy()
    (missing,) = np.nonzero(~periodic)
    if len(missing) == len(cell):
        return np.eye(len(cell))
    # Rows of similar size: the rank must not depend on scales.
    rows = cell[periodic] / np.abs(cell[periodic]).max(axis=1, keepdims=True)
    normals = np.linalg.svd(rows)[2][len(rows) :]
    # Which way they point is free: as the axes do, so that simple cells look simple.
    largest = np.abs(normals).argmax(axis=1)
    signs = np.sign(np.take_along_axis(normals, largest[:, None], axis=1))
    complete[missing] = normals * signs + 0.0
    return complete


def heights(
    cell: Doubles,  # (dim, dim), independent rows
) -> Doubles:
    """Return the distances between opposite faces of a cell, (dim,)."""
    sizes = np.abs(cell).max(axis=1)
    # Rows of similar size, so that the inverse does not overflow.
    inverse = np.linalg.inv(cell / sizes[:, None])
    return sizes / np.linalg.norm(inverse, axis=0)
