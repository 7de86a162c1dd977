"""Validated arguments of a periodic search, as a list of systems."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import pairwise
from numbers import Real
from typing import Final, NamedTuple, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from equigeo._core.checks import TensorLike, as_tensor, kind_of
from equigeo._core.tensors import (
    plain_tensors,
    transforms_active,
    values_readable,
    without_transforms,
)
from equigeo.graphs.edge_index import cloud_offsets

Doubles: TypeAlias = NDArray[np.float64]
Integers: TypeAlias = NDArray[np.int64]
Shifts: TypeAlias = NDArray[np.int32]

LARGEST_SHIFT: Final = 2**31 - 1  # of int32
LARGEST_LENGTH: Final = 1e150  # squares of larger lengths overflow
# Of periodic lattice vectors of length one; beyond, they are taken for linearly dependent.
WORST_CONDITION: Final = 1e12


@dataclass(frozen=True)
class PointSystem:
    """Points with optional periodic axes; :func:`check_system` validates the values."""

    positions: Doubles  # (points, dim) as given, never wrapped
    cell: Doubles  # (dim, dim); only periodic rows count
    pbc: NDArray[np.bool_]  # (dim,)
    cutoff: float  # edges are shorter


class Candidates(NamedTuple):
    """Directed pairs that include all edges, one per column."""

    pairs: Integers  # (2, pairs): sources, targets
    shift: NDArray[np.signedinteger] | None  # (dim, pairs) lattice vectors added to the target


def chunks(count: int, size: int = 2**15) -> Iterator[slice]:
    """Yield slices of a range, sized so that the work of each fits in the L2 cache."""
    for start in range(0, count, size):
        yield slice(start, min(start + size, count))


def check_system(
    system: PointSystem,
    where: str = "",  # name of the system in a batch, for messages
) -> None:
    """Raise for numbers that are not finite or too large, and for dependent periodic vectors."""
    for name, value in (("positions", system.positions), ("cell", system.cell)):
        if not np.isfinite(value).all():
            raise ValueError(f"{name} must be finite, got NaN or infinity{where}")
        if value.size and np.abs(value).max() > LARGEST_LENGTH:
            raise ValueError(f"{name} must be at most {LARGEST_LENGTH:.0e} in size{where}")
    if not independent(system.cell[system.pbc]):
        raise ValueError(
            "cell must have independent vectors along periodic axes, "
            f"got {system.cell.tolist()} with pbc {system.pbc.tolist()}{where}"
        )


def independent(vectors: Doubles) -> bool:
    """Return whether the rows are linearly independent, in float64 with a margin."""
    if len(vectors) == 0:
        return True
    # Not by their norms: squares of tiny components vanish.
    sizes = np.abs(vectors).max(axis=1, keepdims=True)
    if not sizes.all():
        return False
    scaled = vectors / sizes
    values = np.linalg.svd(scaled / np.linalg.norm(scaled, axis=1, keepdims=True), compute_uv=False)
    return bool(values[-1] * WORST_CONDITION > values[0])


@dataclass(frozen=True)
class GivenSystems:
    """Validated arguments of a search."""

    positions: Tensor  # (points, dim)
    cell: Tensor | None  # (3, 3) or (systems, 3, 3)
    cutoff: float
    offsets: list[int]  # of systems
    batch: Tensor | None  # (points,), None for a single system
    cells: Doubles  # (systems, 3, 3)
    pbc: NDArray[np.bool_]  # (systems, 3)

    @property
    def periodic(self) -> bool:
        """Whether any system is periodic along any axis."""
        return bool(self.pbc.any())

    def systems(self) -> list[PointSystem]:
        """Copy all points to the CPU and validate their values and those of the cells."""
        return valid_systems(self.positions, self.cutoff, self.offsets, self.cells, self.pbc)


def given_systems(
    positions: TensorLike,
    cutoff: float,
    cell: TensorLike | None,
    pbc: bool | Sequence[bool] | TensorLike | None,
    batch: TensorLike | None,
    ptr: TensorLike | None,
) -> GivenSystems:
    """Validate the arguments of :func:`equigeo.graphs.neighbor_list`, except for large values."""
    points = given_points(positions)
    if points.shape[1] != 3:
        raise ValueError(f"positions must be (points, 3), got {tuple(points.shape)}")
    reach = given_cutoff(cutoff)
    offsets, numbers = given_offsets(points, batch, ptr)
    count = len(offsets) - 1
    cells, lattice = _given_cells(cell, points, count)
    periodic = _given_pbc(pbc, cell is not None, count)
    return GivenSystems(points, lattice, reach, offsets, numbers, cells, periodic)


def valid_systems(
    points: Tensor,  # (points, dim)
    cutoff: float,
    offsets: list[int],
    cells: Doubles | None = None,  # (systems, dim, dim)
    pbc: NDArray[np.bool_] | None = None,  # (systems, dim)
) -> list[PointSystem]:
    """Copy all points to the CPU and validate the values of each system."""
    values, count, dim = as_doubles(points), len(offsets) - 1, points.shape[1]
    cells = np.zeros((count, dim, dim)) if cells is None else cells
    pbc = np.zeros((count, dim), np.bool_) if pbc is None else pbc
    systems = [
        PointSystem(values[start:end], cells[k], pbc[k], cutoff)
        for k, (start, end) in enumerate(pairwise(offsets))
    ]
    for k, system in enumerate(systems):
        check_system(system, f" in system {k}" if count > 1 else "")
    return systems


def given_points(positions: TensorLike) -> Tensor:
    """Validate floating points (points, dim) with readable values."""
    points = as_tensor(positions, "positions")
    if points.ndim != 2 or points.shape[1] == 0:
        raise ValueError(f"positions must be (points, dim), got {tuple(points.shape)}")
    if not points.is_floating_point():
        raise TypeError(f"positions must be floating, got {points.dtype}: use positions.double()")
    if not values_readable(points):
        raise RuntimeError(
            "which edges there are depends on values of positions: search outside of what is "
            "compiled, exported or mapped, and call edge_vectors inside"
        )
    return points


def given_flag(
    value: object,
    name: str,  # of the argument
) -> None:
    """Raise unless the argument is a bool."""
    if not isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{name} must be a bool, got {kind_of(value)}")


def given_cutoff(
    cutoff: float,
    name: str = "cutoff",  # of the argument
) -> float:
    """Validate a positive finite number and return it as a float."""
    if isinstance(cutoff, Tensor) and cutoff.ndim == 0 and not cutoff.is_complex():
        cutoff = cutoff.item()
    if isinstance(cutoff, (bool, np.bool_)) or not isinstance(cutoff, Real):
        raise TypeError(f"{name} must be a number, got {kind_of(cutoff)}")
    reach = float(cutoff)
    if not (math.isfinite(reach) and reach > 0):
        raise ValueError(f"{name} must be positive and finite, got {reach}")
    if not 1 / LARGEST_LENGTH <= reach <= LARGEST_LENGTH:
        raise ValueError(
            f"{name} must lie between {1 / LARGEST_LENGTH:.0e} and {LARGEST_LENGTH:.0e}, "
            f"got {reach}"
        )
    return reach


def given_offsets(
    points: Tensor,  # (points, dim)
    batch: TensorLike | None,  # (points,) ascending
    ptr: TensorLike | None,  # (systems + 1,)
) -> tuple[list[int], Tensor | None]:
    """Return offsets and batch vector, given either of them; batch is None for one system."""
    offsets = cloud_offsets(len(points), batch, ptr)
    if offsets is None:
        return [0, len(points)], None
    counts = offsets.diff()
    each = torch.arange(len(counts), device=counts.device)
    numbers = each.repeat_interleave(counts, output_size=len(points))
    return offsets.tolist(), numbers.to(points.device)


def as_doubles(x: Tensor) -> Doubles:
    """Copy a tensor to a contiguous float64 array."""
    with plain_tensors() if transforms_active() else nullcontext():
        values = without_transforms(x).to("cpu", torch.float64).resolve_neg()
        return np.ascontiguousarray(values.numpy())


def _given_cells(
    cell: TensorLike | None, points: Tensor, count: int
) -> tuple[Doubles, Tensor | None]:
    """Return the cells of all systems, (systems, 3, 3), and the tensor as given."""
    if cell is None:
        return np.zeros((count, 3, 3)), None
    given = as_tensor(cell, "cell", like=points)
    if not given.is_floating_point() or given.dtype != points.dtype:
        raise TypeError(f"cell must be {points.dtype} as positions are, got {given.dtype}")
    if given.device != points.device:
        raise ValueError(f"cell must be on {points.device} as positions are, got {given.device}")
    shape = tuple(given.shape)
    if shape != (3, 3) and shape != (count, 3, 3):
        raise ValueError(f"cell must be (3, 3) or ({count}, 3, 3), got {shape}")
    return np.broadcast_to(as_doubles(given), (count, 3, 3)), given


def _given_pbc(
    pbc: bool | Sequence[bool] | TensorLike | None, has_cell: bool, count: int
) -> NDArray[np.bool_]:
    """Return the periodic flags of all systems, (systems, 3)."""
    if pbc is None:
        return np.full((count, 3), has_cell)
    if isinstance(pbc, Tensor):
        pbc = pbc.detach().cpu().numpy()
    flags = np.asarray(pbc)
    if flags.dtype != np.bool_:
        raise TypeError(f"pbc must be bool, got {flags.dtype}")
    if flags.shape not in {(), (3,), (count, 3)}:
        raise ValueError(f"pbc must be a bool, (3,) or ({count}, 3), got {flags.shape}")
    if flags.any() and not has_cell:
        raise ValueError("cell must be given where pbc is true, got None")
    return np.ascontiguousarray(np.broadcast_to(flags, (count, 3)))
