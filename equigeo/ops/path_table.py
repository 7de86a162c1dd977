"""The paths of a product of rows, as the tensors that ops take."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Coupling:
    """One path: a segment of each input and where it leads. Offsets count elements of a row.

    Parameters
    ----------
    x, y, out : int
        Offsets of the segments.
    weight : int or None
        Offset of the (mul, mul2) weights.
    mul, mul2 : int
        Multiplicities of the inputs; the output has that of the first.
    coefficients : Tensor, (d1, d2, d3), floating
        What couples their components.
    """

    x: int
    y: int
    out: int
    weight: int | None
    mul: int
    mul2: int
    coefficients: Tensor


@dataclass(frozen=True, eq=False)
class PathTable:
    """Which segments of two rows couple into which segments of a third.

    A segment is a block of ``mul`` copies of ``d`` components, components inside
    (``ir_mul = False``) or outside. Either all paths have weights or none.

    Parameters
    ----------
    paths : Tensor, (paths, 11), int64
        Offset, multiplicity and components in the first input; the same in the second; offset and
        components in the output; offset of the (mul, mul2) weights, or -1; first and last
        coefficient. Sorted by offset in the output; segments there do not overlap.
    entries : Tensor, (coefficients, 3), int64
        Components (i, j, k) that a coefficient couples.
    values : Tensor, (coefficients,), float64
        Coefficients.
    dim_x, dim_y, dim_weight, dim_out : int
        Lengths of the rows.
    ir_mul : bool
        The layout of all segments.
    """

    paths: Tensor
    entries: Tensor
    values: Tensor
    dim_x: int
    dim_y: int
    dim_weight: int
    dim_out: int
    ir_mul: bool = False

    @classmethod
    def from_couplings(
        cls,
        couplings: Sequence[Coupling],
        dims: tuple[int, int, int, int],
        *,
        ir_mul: bool = False,
    ) -> PathTable:
        """Sort paths by output and list their coefficients that are not zero.

        Parameters
        ----------
        couplings : sequence of Coupling
            The paths; paths into one segment of the output add up.
        dims : tuple of int
            ``dim_x, dim_y, dim_weight, dim_out``.
        ir_mul : bool
            The layout.

        Returns
        -------
        PathTable
            On the CPU.

        Raises
        ------
        ValueError
            If only some paths have weights.
        """
        if len({coupling.weight is None for coupling in couplings}) > 1:
            raise ValueError("either all paths have weights or none")
        rows, entries, values, first = [], [], [], 0
        for c in sorted(couplings, key=lambda coupling: coupling.out):
            d1, d2, d3 = c.coefficients.shape
            where = c.coefficients.nonzero()
            last = first + len(where)
            weight = -1 if c.weight is None else c.weight
            rows.append([c.x, c.mul, d1, c.y, c.mul2, d2, c.out, d3, weight, first, last])
            entries.append(where)
            values.append(c.coefficients[tuple(where.T)].double())
            first = last
        return cls(
            torch.tensor(rows, dtype=torch.int64).reshape(-1, 11),
            torch.cat([torch.zeros(0, 3, dtype=torch.int64), *entries]),
            torch.cat([torch.zeros(0, dtype=torch.float64), *values]),
            *dims,
            ir_mul,
        )


@dataclass(frozen=True)
class DensePath:
    """A path of a table in the form of the readable bodies."""

    coefficients: Tensor
    x_index: Tensor
    y_index: Tensor
    out_index: Tensor
    weight_index: Tensor | None

    def x(self, row: Tensor) -> Tensor:
        """Segment of the first input, (rows, mul, d1)."""
        return row[:, self.x_index]

    def y(self, row: Tensor) -> Tensor:
        """Segment of the second input, (rows, mul2, d2)."""
        return row[:, self.y_index]

    def out(self, row: Tensor) -> Tensor:
        """Segment of the output, (rows, mul, d3)."""
        return row[:, self.out_index]

    def weight(self, row: Tensor | None, like: Tensor) -> Tensor:
        """Weights, (rows, mul, mul2); ones where there are none."""
        if row is None or self.weight_index is None:
            return like.new_ones(len(like), len(self.x_index), len(self.y_index))
        return row[:, self.weight_index]


def dense_paths(
    paths: Tensor, entries: Tensor, values: Tensor, ir_mul: bool
) -> Iterator[DensePath]:
    """Read a table path by path.

    Parameters
    ----------
    paths, entries, values : Tensor
        As in :class:`PathTable`.
    ir_mul : bool
        The layout.

    Yields
    ------
    DensePath
        With dense coefficients, on the device of ``values``.
    """
    for row in paths.tolist():
        x, mul, d1, y, mul2, d2, out, d3, weight, first, last = row
        place = tuple(entries[first:last].T)
        coefficients = values.new_zeros(d1, d2, d3)
        coefficients = coefficients.index_put(place, values[first:last])
        pairs = None
        if weight >= 0:
            pairs = _block(weight, mul, mul2, False)
        blocks = (_block(x, mul, d1, ir_mul), _block(y, mul2, d2, ir_mul))
        yield DensePath(coefficients, *blocks, _block(out, mul, d3, ir_mul), pairs)


def _block(offset: int, mul: int, d: int, ir_mul: bool) -> Tensor:
    """Positions of a segment, (mul, d)."""
    flat = torch.arange(offset, offset + mul * d)
    return flat.view(d, mul).T if ir_mul else flat.view(mul, d)
