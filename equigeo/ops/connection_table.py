"""The paths of a product whose channels meet in pairs, as the tensors that ops take."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import astuple, dataclass

import torch
from torch import Tensor

COLUMNS = 18


@dataclass(frozen=True)
class Segment:
    """Copies of an irrep in a row: component i of copy u is element ``offset + u copy + i step``.

    Parameters
    ----------
    offset : int
        Where the segment begins.
    mul, d : int
        Copies and components.
    copy, step : int
        From copy to copy and from component to component, at least 1.
    """

    offset: int
    mul: int
    d: int
    copy: int
    step: int

    @classmethod
    def block(cls, offset: int, mul: int, d: int, *, ir_mul: bool = False) -> Segment:
        """Lay copies side by side.

        Parameters
        ----------
        offset, mul, d : int
            As above.
        ir_mul : bool
            Whether components are outside.

        Returns
        -------
        Segment
            Without gaps.
        """
        return cls(offset, mul, d, 1, mul) if ir_mul else cls(offset, mul, d, d, 1)

    def index(self) -> Tensor:
        """Positions of the elements, (mul, d), int64, on the CPU."""
        copies, components = torch.arange(self.mul), torch.arange(self.d)
        return self.offset + self.copy * copies[:, None] + self.step * components


@dataclass(frozen=True, eq=False)
class Connection:
    """One path: a segment of each input and where it leads.

    Parameters
    ----------
    x, y, out : Segment
        Of the inputs and the output.
    weight : int or None
        Offset of the weights.
    coefficients : Tensor, (d1, d2, d3), floating
        What couples their components.
    """

    x: Segment
    y: Segment
    out: Segment
    weight: int | None
    coefficients: Tensor


@dataclass(frozen=True, eq=False)
class ConnectionTable:
    """Which segments of two rows couple into which segments of a third, for any multiplicities.

    How copies meet is a matter of the op. Either all paths have weights or none: a product is then
    linear in them.

    Parameters
    ----------
    paths : Tensor, (paths, 18), int64
        Offset, copies, components and both steps of a segment of the first input, the second and
        the output; offset of the weights, or -1; first and last coefficient.
    entries : Tensor, (coefficients, 3), int64
        Components (i, j, k) that a coefficient couples.
    values : Tensor, (coefficients,), float64
        Coefficients.
    dim_x, dim_y, dim_weight, dim_out : int
        Lengths of the rows.
    """

    paths: Tensor
    entries: Tensor
    values: Tensor
    dim_x: int
    dim_y: int
    dim_weight: int
    dim_out: int

    @classmethod
    def from_connections(
        cls, connections: Sequence[Connection], dims: tuple[int, int, int, int]
    ) -> ConnectionTable:
        """List the coefficients of paths that are not zero.

        Parameters
        ----------
        connections : sequence of Connection
            The paths; what they make of one element of the output adds up.
        dims : tuple of int
            ``dim_x, dim_y, dim_weight, dim_out``.

        Returns
        -------
        ConnectionTable
            On the CPU.

        Raises
        ------
        ValueError
            If only some paths have weights, or coefficients have other components than the segments
            that they join.
        """
        if len({c.weight is None for c in connections}) > 1:
            raise ValueError("either all paths have weights or none")
        rows, entries, values, first = [], [], [], 0
        for c in connections:
            shape = (c.x.d, c.y.d, c.out.d)
            if c.coefficients.shape != shape:
                raise ValueError(
                    f"coefficients must have shape {shape}, got {tuple(c.coefficients.shape)}"
                )
            where = c.coefficients.nonzero()
            last = first + len(where)
            segments = [number for part in (c.x, c.y, c.out) for number in astuple(part)]
            rows.append([*segments, -1 if c.weight is None else c.weight, first, last])
            entries.append(where)
            values.append(c.coefficients[tuple(where.T)].double())
            first = last
        return cls(
            torch.tensor(rows, dtype=torch.int64).reshape(-1, COLUMNS),
            torch.cat([torch.zeros(0, 3, dtype=torch.int64), *entries]),
            torch.cat([torch.zeros(0, dtype=torch.float64), *values]),
            *dims,
        )


def read_connections(paths: Tensor, entries: Tensor, values: Tensor) -> Iterator[Connection]:
    """Read a table path by path.

    Parameters
    ----------
    paths, entries, values : Tensor
        As in :class:`ConnectionTable`.

    Yields
    ------
    Connection
        With coefficients on the device of ``values``.
    """
    for *numbers, weight, first, last in paths.tolist():
        x, y, out = (Segment(*numbers[n : n + 5]) for n in (0, 5, 10))
        place = tuple(entries[first:last].T)
        coefficients = values.new_zeros(x.d, y.d, out.d).index_put(place, values[first:last])
        yield Connection(x, y, out, None if weight < 0 else weight, coefficients)
