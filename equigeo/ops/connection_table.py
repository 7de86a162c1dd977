"""The paths of a product whose channels meet in pairs, as the tensors that ops take."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

COLUMNS = 12


@dataclass(frozen=True, eq=False)
class Connection:
    """One path: a segment of each input and where it leads. Offsets count elements of a row.

    Parameters
    ----------
    x, y, out : int
        Offsets of the segments.
    weight : int or None
        Offset of the weights.
    muls : tuple of int
        Multiplicities of the inputs and of the output.
    coefficients : Tensor, (d1, d2, d3), floating
        What couples their components.
    """

    x: int
    y: int
    out: int
    weight: int | None
    muls: tuple[int, int, int]
    coefficients: Tensor


@dataclass(frozen=True, eq=False)
class ConnectionTable:
    """Which segments of two rows couple into which segments of a third, for any multiplicities.

    A segment is a block of ``mul`` copies of ``d`` components, components inside
    (``ir_mul = False``) or outside. How copies meet is a matter of the op.

    Parameters
    ----------
    paths : Tensor, (paths, 12), int64
        Offset, multiplicity and components in the first input; the same in the second and in the
        output; offset of the weights, or -1; first and last coefficient.
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
    def from_connections(
        cls,
        connections: Sequence[Connection],
        dims: tuple[int, int, int, int],
        *,
        ir_mul: bool = False,
    ) -> ConnectionTable:
        """List the coefficients of paths that are not zero.

        Parameters
        ----------
        connections : sequence of Connection
            The paths; what they make of one segment of the output adds up.
        dims : tuple of int
            ``dim_x, dim_y, dim_weight, dim_out``.
        ir_mul : bool
            The layout.

        Returns
        -------
        ConnectionTable
            On the CPU.
        """
        rows, entries, values, first = [], [], [], 0
        for c in connections:
            (mul, mul2, mul3), (d1, d2, d3) = c.muls, c.coefficients.shape
            where = c.coefficients.nonzero()
            last = first + len(where)
            weight = -1 if c.weight is None else c.weight
            rows.append([c.x, mul, d1, c.y, mul2, d2, c.out, mul3, d3, weight, first, last])
            entries.append(where)
            values.append(c.coefficients[tuple(where.T)].double())
            first = last
        return cls(
            torch.tensor(rows, dtype=torch.int64).reshape(-1, COLUMNS),
            torch.cat([torch.zeros(0, 3, dtype=torch.int64), *entries]),
            torch.cat([torch.zeros(0, dtype=torch.float64), *values]),
            *dims,
            ir_mul,
        )


@dataclass(frozen=True)
class DenseConnection:
    """A path of a table in the form of the readable bodies."""

    coefficients: Tensor
    muls: tuple[int, int, int]
    x_index: Tensor
    y_index: Tensor
    out_index: Tensor
    weight: int | None

    def x(self, row: Tensor) -> Tensor:
        """Segment of the first input, (rows, mul, d1)."""
        return row[:, self.x_index]

    def y(self, row: Tensor) -> Tensor:
        """Segment of the second input, (rows, mul2, d2)."""
        return row[:, self.y_index]

    def out(self, row: Tensor) -> Tensor:
        """Segment of the output, (rows, mul3, d3)."""
        return row[:, self.out_index]


def dense_connections(
    paths: Tensor, entries: Tensor, values: Tensor, ir_mul: bool
) -> Iterator[DenseConnection]:
    """Read a table path by path.

    Parameters
    ----------
    paths, entries, values : Tensor
        As in :class:`ConnectionTable`.
    ir_mul : bool
        The layout.

    Yields
    ------
    DenseConnection
        On the device of ``values``.
    """
    for row in paths.tolist():
        x, mul, d1, y, mul2, d2, out, mul3, d3, weight, first, last = row
        place = tuple(entries[first:last].T)
        coefficients = values.new_zeros(d1, d2, d3).index_put(place, values[first:last])
        blocks = ((x, mul, d1), (y, mul2, d2), (out, mul3, d3))
        positions = (segment(*block, ir_mul).to(values.device) for block in blocks)
        own = None if weight < 0 else weight
        yield DenseConnection(coefficients, (mul, mul2, mul3), *positions, own)


def segment(offset: int, mul: int, d: int, ir_mul: bool) -> Tensor:
    """Positions of a segment in its row.

    Parameters
    ----------
    offset, mul, d : int
        Where it begins, copies and components.
    ir_mul : bool
        Its layout.

    Returns
    -------
    Tensor, (mul, d), int64
        On the CPU.
    """
    flat = torch.arange(offset, offset + mul * d)
    return flat.view(d, mul).T if ir_mul else flat.view(mul, d)


def add_segment(row: Tensor, index: Tensor, block: Tensor) -> Tensor:
    """Add a block to the positions of a segment.

    Parameters
    ----------
    row : Tensor, (rows, dim)
        Not changed.
    index : Tensor, (mul, d), int64
        Positions.
    block : Tensor, (rows, mul, d)
        What is added.

    Returns
    -------
    Tensor, (rows, dim)
        The sum.
    """
    return row.index_add(1, index.flatten(), block.flatten(1))
