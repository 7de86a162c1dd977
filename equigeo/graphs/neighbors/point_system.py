"""One system of points: positions, lattice vectors and cut-off, as arrays of doubles."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

Doubles: TypeAlias = NDArray[np.float64]
Integers: TypeAlias = NDArray[np.int64]
Shifts: TypeAlias = NDArray[np.int32]

LARGEST_SHIFT: Final = 2**31 - 1
"""Shifts are int32."""

LARGEST_LENGTH: Final = 1e150
"""Squares of larger lengths overflow."""

WORST_CONDITION: Final = 1e12
"""Of periodic lattice vectors of length one; beyond, they are taken for linearly dependent."""


@dataclass(frozen=True)
class PointSystem:
    """Points that may repeat in space.

    The constructor trusts its arguments; :func:`check_system` looks at their values.

    Parameters
    ----------
    positions : ndarray, (points, dim), float64
        As the caller gave them, never wrapped into the cell.
    cell : ndarray, (dim, dim), float64
        Rows are lattice vectors; those of axes that are not periodic mean nothing.
    pbc : ndarray, (dim,), bool
        Which axes are periodic.
    cutoff : float
        Edges are shorter than that.
    """

    positions: Doubles
    cell: Doubles
    pbc: NDArray[np.bool_]
    cutoff: float


class Candidates(NamedTuple):
    """Directed pairs among which all edges are, one column each.

    Parameters
    ----------
    pairs : ndarray, (2, pairs), int64
        Row 0 sources, row 1 targets.
    shift : ndarray, (dim, pairs), int32 or int64, or None
        Lattice vectors that are added to the target; None if all are zero.
    """

    pairs: Integers
    shift: NDArray[np.signedinteger] | None


def chunks(count: int, size: int = 2**15) -> Iterator[slice]:
    """Cut so many numbers into slices whose work stays in the second cache.

    Parameters
    ----------
    count : int
        How many numbers.
    size : int
        Of all slices but the last.

    Yields
    ------
    slice
        One after another.

    Examples
    --------
    >>> [*chunks(5, 3)]
    [slice(0, 3, None), slice(3, 5, None)]
    """
    for start in range(0, count, size):
        yield slice(start, min(start + size, count))


def check_system(system: PointSystem, where: str = "") -> None:
    """Refuse numbers from which no list can be made.

    Parameters
    ----------
    system : PointSystem
        What the caller gave.
    where : str
        Which system of a batch, for messages.

    Raises
    ------
    ValueError
        If a number is not finite or too large, or periodic lattice vectors are dependent.

    Examples
    --------
    >>> flat = PointSystem(np.zeros((1, 3)), np.diag([1.0, 1.0, 0.0]), np.ones(3, bool), 1.0)
    >>> check_system(flat)
    Traceback (most recent call last):
    ValueError: cell must have independent vectors along periodic axes, got [[1.0, 0.0, 0.0], \
[0.0, 1.0, 0.0], [0.0, 0.0, 0.0]] with pbc [True, True, True]
    """
    for name, value in (("positions", system.positions), ("cell", system.cell)):
        if not np.isfinite(value).all():
            raise ValueError(f"{name} must be finite, got NaN or infinity{where}")
        if value.size and np.abs(value).max() > LARGEST_LENGTH:
            raise ValueError(f"{name} must be at most {LARGEST_LENGTH:.0e} in size{where}")
    if not _independent(system.cell[system.pbc]):
        raise ValueError(
            "cell must have independent vectors along periodic axes, "
            f"got {system.cell.tolist()} with pbc {system.pbc.tolist()}{where}"
        )


def _independent(vectors: Doubles) -> bool:
    if len(vectors) == 0:
        return True
    # Not by their norms: squares of tiny components vanish.
    sizes = np.abs(vectors).max(axis=1, keepdims=True)
    if not sizes.all():
        return False
    scaled = vectors / sizes
    values = np.linalg.svd(scaled / np.linalg.norm(scaled, axis=1, keepdims=True), compute_uv=False)
    return bool(values[-1] * WORST_CONDITION > values[0])
