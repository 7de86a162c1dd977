"""The paths of a product of rows, as the tensors that ops take.

A *segment* is the copies of an irrep inside a row. A *path* is one segment of each input and the
segment of the output that they contribute to, with coefficients and optional weights: a row of the
table. A *connection* is how the multiplicities of a path meet, as in e3nn's modes (``uvw``, ...),
and belongs to the op. A *coupling* is the coefficients between the components of three irreps.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from equigeo._core.tensors import plain_tensors

COLUMNS = 18


@dataclass(frozen=True)
class Segment:
    """Copies of an irrep in a row: component i of copy u is element ``offset + u copy + i step``.

    ``mul`` is the number of copies and ``d`` that of components.

    Examples
    --------
    >>> Segment.block(4, mul=2, d=3)  # two vectors behind four scalars
    Segment(offset=4, mul=2, d=3, copy=3, step=1)
    >>> Segment.block(4, mul=2, d=3, ir_mul=True)
    Segment(offset=4, mul=2, d=3, copy=1, step=2)
    """

    offset: int
    mul: int
    d: int
    copy: int
    step: int

    @classmethod
    def block(cls, offset: int, mul: int, d: int, *, ir_mul: bool = False) -> Segment:
        """Return a segment without gaps, by default with each copy stored contiguously."""
        return cls(offset, mul, d, 1, mul) if ir_mul else cls(offset, mul, d, d, 1)

    def numbers(self) -> tuple[int, int, int, int, int]:
        """Return the fields as a tuple, faster than :func:`dataclasses.astuple`."""
        return self.offset, self.mul, self.d, self.copy, self.step

    def index(self) -> Tensor:
        """Positions of the elements, (mul, d), int64, on the CPU."""
        copies, components = torch.arange(self.mul), torch.arange(self.d)
        return self.offset + self.copy * copies[:, None] + self.step * components


@dataclass(frozen=True, eq=False)
class Path:
    """A segment of each input and the segment of the output that they contribute to.

    Parameters
    ----------
    x, y, out : Segment
        Of the inputs and the output.
    weight : int or None
        Offset of the weights, whose number depends on the connection.
    coefficients : Tensor, (x.d, y.d, out.d), floating
        The coupling of their components.

    Examples
    --------
    >>> vector, number = Segment.block(0, 1, 3), Segment.block(0, 1, 1)
    >>> dot = Path(vector, vector, number, weight=None, coefficients=torch.eye(3)[..., None])
    >>> dot.coefficients.shape
    torch.Size([3, 3, 1])
    """

    x: Segment
    y: Segment
    out: Segment
    weight: int | None
    coefficients: Tensor


@dataclass(frozen=True, eq=False)
class PathTable:
    """Paths from segments of two input rows to segments of an output row.

    Either all paths have weights or none: a product is then linear in them.

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
    ir_mul : bool
        Whether segments have components outside, for ops whose segments all have one layout.

    Examples
    --------
    The scalar product of two vectors with a third:

    >>> dot = torch.eye(3)[..., None]
    >>> two, one = Segment.block(0, mul=2, d=3), Segment.block(0, mul=1, d=3)
    >>> path = Path(two, one, Segment.block(0, mul=2, d=1), weight=None, coefficients=dot)
    >>> PathTable.from_paths([path], dims=(6, 3, 0, 2)).entries.tolist()
    [[0, 0, 0], [1, 1, 0], [2, 2, 0]]
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
    @plain_tensors()
    def from_paths(
        cls, paths: Sequence[Path], dims: tuple[int, int, int, int], *, by_output: bool = False
    ) -> PathTable:
        """Build a table on the CPU from paths, keeping nonzero coefficients.

        ``dims`` is ``dim_x, dim_y, dim_weight, dim_out``. ``by_output`` sorts paths by their offset
        in the output, as channelwise ops require. Raises ``ValueError`` if only some paths have
        weights, or coefficients do not have the components of their segments.
        """
        if len({path.weight is None for path in paths}) > 1:
            raise ValueError("either all paths have weights or none")
        rows, entries, values, first = [], [], [], 0
        for path in sorted(paths, key=lambda path: path.out.offset) if by_output else paths:
            shape = (path.x.d, path.y.d, path.out.d)
            if path.coefficients.shape != shape:
                given = tuple(path.coefficients.shape)
                raise ValueError(f"coefficients must have shape {shape}, got {given}")
            where = path.coefficients.nonzero()
            last = first + len(where)
            segments = [n for segment in (path.x, path.y, path.out) for n in segment.numbers()]
            rows.append([*segments, -1 if path.weight is None else path.weight, first, last])
            entries.append(where)
            values.append(path.coefficients[tuple(where.T)].double())
            first = last
        return cls(
            torch.tensor(rows, dtype=torch.int64).reshape(-1, COLUMNS),
            torch.cat([torch.zeros(0, 3, dtype=torch.int64), *entries]),
            torch.cat([torch.zeros(0, dtype=torch.float64), *values]),
            *dims,
            any(_is_ir_mul(segment) for path in paths for segment in (path.x, path.y, path.out)),
        )


def _is_ir_mul(segment: Segment) -> bool:
    """Return whether components are the outer axis, also for one copy or one component."""
    return segment.mul > 1 and segment.d > 1 and segment.copy == 1


def read_paths(paths: Tensor, entries: Tensor, values: Tensor) -> Iterator[Path]:
    """Yield the paths of a table, with coefficients on the device of ``values``."""
    for *numbers, weight, first, last in paths.tolist():
        x, y, out = (Segment(*numbers[n : n + 5]) for n in (0, 5, 10))
        place = tuple(entries[first:last].T)
        coefficients = values.new_zeros(x.d, y.d, out.d).index_put(place, values[first:last])
        yield Path(x, y, out, None if weight < 0 else weight, coefficients)
