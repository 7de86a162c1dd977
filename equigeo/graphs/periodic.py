"""Systems wrapped into compact cells, and lattice reduction."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import product
from typing import Final

import numpy as np
from numpy.typing import NDArray

from equigeo.graphs.systems import LARGEST_SHIFT, Candidates, Doubles, Integers, PointSystem

_MOST_STEPS: Final = 1000  # each makes the longest vector shorter; dozens suffice for any cell
_SHORTER: Final = 1 - 1e-9  # of squares: less than that may be rounding, and would never end
_LARGEST: Final = 2**52  # of coefficients: doubles hold them, and sums of a few
# What a backend may round by: two libraries and this one, a dozen operations each.
ROUNDINGS: Final = 64 * np.finfo(np.float64).eps
MARGIN: Final = 1e-9  # of the cut-off: pairs at exactly that distance may come and go


# Most errors of neighbor lists are for skewed, left-handed or singular cells, points outside of
# the cell, or axes that are not periodic. No backend receives any of these:
#
#     given positions x, cell H  ->  reduced cell B H  ->  wrapped points x - w B H  ->  box
#     given shifts n = (n_box + w_source - w_target) B
#
# with an integer matrix B of determinant 1 or -1 (`basis`) and integer w (`wraps`).


@dataclass(frozen=True)
class SearchBox:
    """Points wrapped into a compact, right-handed cell, with the map back to the system."""

    points: Doubles  # (points, dim) inside the cell up to rounding
    cell: Doubles  # (dim, dim); open axes cover all points and exceed twice the cutoff
    pbc: NDArray[np.bool_]  # (dim,)
    cutoff: float  # of the system, enlarged by a rounding bound
    wraps: Integers | None  # (points, dim) cell vectors subtracted from each point
    basis: Integers | None  # (dim, dim) vectors of this cell in those of the system

    def given_terms(self, found: Candidates) -> Candidates:
        """Convert candidates of wrapped points to the positions and cell of the system."""
        shift = found.shift
        if shift is None or (self.wraps is None and self.basis is None):
            return found
        if self.wraps is not None:
            shift = self._unwrapped(found.pairs, shift)
        if self.basis is not None:
            shift = _times(shift, self.basis)
        if shift.dtype == np.int64 and shift.size:
            check_shifts(max(int(shift.max()), -int(shift.min())))
        return Candidates(found.pairs, shift)

    def _unwrapped(
        self, pairs: Integers, shift: NDArray[np.signedinteger]
    ) -> NDArray[np.signedinteger]:
        """Add the wraps of both ends to the shifts, (dim, pairs)."""
        wraps = self.wraps if self.wraps is not None else np.zeros_like(self.points, np.int64)
        # Often a few points are outside by a little.
        moved = wraps.any(axis=1)
        rows = np.flatnonzero(moved.take(pairs[0]) | moved.take(pairs[1]))
        small = int(np.abs(wraps).max(initial=0)) < 2**28
        shift = shift if small else shift.astype(np.int64)
        source, target = pairs[:, rows]
        for axis in np.nonzero(self.pbc)[0]:
            along = np.ascontiguousarray(wraps[:, axis])
            shift[axis, rows] += (along.take(source) - along.take(target)).astype(shift.dtype)
        return shift


def search_box(system: PointSystem) -> SearchBox:
    """Convert a system to a box with the same edges."""
    return _in_usual_unit(_periodic_box(system) if system.pbc.any() else _open_box(system))


def usual_unit(cutoff: float) -> float:
    """Return the factor that scales a cutoff to 4 to 8; powers of two cause no rounding."""
    return 2.0 ** (3 - math.frexp(cutoff)[1])


def _in_usual_unit(box: SearchBox) -> SearchBox:
    unit = usual_unit(box.cutoff)
    if unit == 1.0:
        return box
    # Nothing overflows: the cut-off is a fraction of the largest length, or more.
    return replace(box, points=box.points * unit, cell=box.cell * unit, cutoff=box.cutoff * unit)


def _periodic_box(system: PointSystem) -> SearchBox:
    positions, pbc = system.positions, system.pbc
    cell, basis = compact_cell(system)
    inverse = np.asarray(np.linalg.inv(cell), np.float64)
    fractions = positions @ inverse
    wraps = np.where(pbc, np.floor(fractions), 0.0)
    farthest = np.abs(wraps).max(axis=0, initial=0.0)
    check_shifts(float(farthest.max()))
    points = positions - wraps @ cell if wraps.any() else positions
    cutoff = system.cutoff * (1 + MARGIN) + _rounding(system, cell, basis, farthest)
    points, cell = _enclose(points, cell, inverse, pbc, cutoff)
    return SearchBox(
        points,
        cell,
        pbc,
        cutoff,
        wraps.astype(np.int64) if wraps.any() else None,
        None if basis is None else square_basis(basis, pbc),
    )


def _open_box(system: PointSystem) -> SearchBox:
    positions = system.positions
    farthest = float(np.abs(positions).max(initial=0.0))
    cutoff = system.cutoff * (1 + MARGIN) + ROUNDINGS * farthest
    low = positions.min(axis=0, initial=np.inf if len(positions) else 0.0)
    reach = positions.max(axis=0, initial=-np.inf if len(positions) else 0.0) - low
    points = positions - (low - cutoff)
    return SearchBox(points, np.diag(reach + 3 * cutoff), system.pbc, cutoff, None, None)


def compact_cell(system: PointSystem) -> tuple[Doubles, Integers | None]:
    """Return short right-handed vectors along periodic axes, and unit vectors along others."""
    pbc = system.pbc
    given = system.cell[pbc]
    basis = reduce_lattice(given)
    reduced = system.cell.copy()
    reduced[pbc] = basis @ given
    complete = complete_cell(reduced, pbc)
    if np.linalg.det(complete / np.abs(complete).max(axis=1, keepdims=True)) < 0:
        if pbc.all():
            basis, complete = -basis, -complete
        else:
            complete[np.nonzero(~pbc)[0][0]] *= -1
    same = np.array_equal(basis, np.eye(len(basis), dtype=np.int64))
    return complete, None if same else basis


def _rounding(
    system: PointSystem, cell: Doubles, basis: Integers | None, farthest: Doubles
) -> float:
    """Bound the shift of a candidate by rounding, here and in the predicate on given positions."""
    pbc = system.pbc
    given = np.abs(system.cell[pbc])
    sizes = given if basis is None else np.abs(basis).astype(np.float64) @ given
    reach = system.cutoff / heights(cell)[pbc] + farthest[pbc] + 1
    largest = float(np.abs(system.positions).max(initial=0.0)) + system.cutoff
    # 64 eps (max |x| + cutoff + max over coordinates of reach @ |B| |H|).
    return float(ROUNDINGS * (largest + (reach @ sizes).max()))


def _enclose(
    points: Doubles, cell: Doubles, inverse: Doubles, pbc: NDArray[np.bool_], cutoff: float
) -> tuple[Doubles, Doubles]:
    """Shift the points and stretch the cell so that they are inside along open axes."""
    if pbc.all() or not len(points):
        return points, cell
    along = points @ inverse[:, ~pbc]
    low, high = along.min(axis=0), along.max(axis=0)
    normals = cell[~pbc]
    stretched = cell.copy()
    stretched[~pbc] = normals * (high - low + 3 * cutoff)[:, None]
    return points - (low - cutoff) @ normals, stretched


def square_basis(basis: Integers, pbc: NDArray[np.bool_]) -> Integers:
    """Complete a basis of the periodic axes by the identity, (dim, dim)."""
    result = np.eye(len(pbc), dtype=np.int64)
    result[np.ix_(pbc, pbc)] = basis
    return result


def _times(shift: NDArray[np.signedinteger], basis: Integers) -> Integers:
    """Multiply integer matrices, for which matmul is slow."""
    largest = float(np.abs(shift).max(initial=0)) * float(np.abs(basis).astype(np.float64).max())
    if 3 * largest >= 2.0**63:  # sums could come back into the range that is checked
        check_shifts(largest)
    result = np.zeros(shift.shape, np.int64)
    for row, column in zip(*np.nonzero(basis), strict=True):
        result[column] += shift[row] * basis[row, column]
    return result


def check_shifts(largest: float) -> None:
    """Raise for shifts that int32 cannot hold."""
    if largest > LARGEST_SHIFT:
        raise ValueError(
            f"positions must lie within {LARGEST_SHIFT} cells, or shifts overflow: "
            f"got {largest:.3g}"
        )


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
