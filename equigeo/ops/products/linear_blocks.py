"""The blocks of a linear map of rows, as reference implementations read them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

COLUMNS = 6


@dataclass(frozen=True, eq=False)
class LinearBlock:
    """A row of the argument ``blocks``, with its factor.

    Parameters
    ----------
    x, mul : int
        Offset and copies of the segment of the input.
    out, mul_out : int
        The same of the output.
    d : int
        Components of both.
    weight : int
        Offset of the matrix (mul, mul_out).
    factor : Tensor, ()
        What it is multiplied by.
    """

    x: int
    mul: int
    out: int
    mul_out: int
    d: int
    weight: int
    factor: Tensor

    def matrix(self, weight: Tensor) -> Tensor:
        """Matrix of each group, (groups, 1, mul, mul_out), from (groups, weights)."""
        flat = weight.narrow(-1, self.weight, self.mul * self.mul_out)
        return self.factor * flat.unflatten(-1, (1, self.mul, self.mul_out))

    def input(self, rows: Tensor, ir_mul: bool) -> Tensor:
        """Segment of the input, (..., mul, d)."""
        return _segment(rows, self.x, self.mul, self.d, ir_mul)

    def output(self, rows: Tensor, ir_mul: bool) -> Tensor:
        """Segment of the output, (..., mul_out, d)."""
        return _segment(rows, self.out, self.mul_out, self.d, ir_mul)

    def add_input(self, rows: Tensor, part: Tensor, ir_mul: bool) -> Tensor:
        """Add (..., mul, d) to a segment of the input, not in place."""
        return _add(rows, self.x, part.mT if ir_mul else part)

    def add_output(self, rows: Tensor, part: Tensor, ir_mul: bool) -> Tensor:
        """Add (..., mul_out, d) to a segment of the output, not in place."""
        return _add(rows, self.out, part.mT if ir_mul else part)

    def add_matrix(self, weight: Tensor, part: Tensor) -> Tensor:
        """Add (groups, mul, mul_out) to the gradient of the weights, not in place."""
        return _add(weight, self.weight, self.factor * part)


def read_blocks(blocks: Tensor, factors: Tensor) -> Iterator[LinearBlock]:
    """Read blocks one by one.

    Parameters
    ----------
    blocks : Tensor, (blocks, 6), int64
        As :func:`equigeo.ops.block_linear` takes them.
    factors : Tensor, (blocks,)
        Their factors.

    Yields
    ------
    LinearBlock
        One for each row.
    """
    for (x, mul, out, mul_out, d, weight), factor in zip(blocks.tolist(), factors, strict=True):
        yield LinearBlock(x, mul, out, mul_out, d, weight, factor)


def in_groups(x: Tensor, weight: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Divide rows among the groups that share weights, in the dtype to compute in.

    Parameters
    ----------
    x : Tensor, (groups * rows, components)
        Rows.
    weight : Tensor, (groups, weights)
        Weights of each group.
    dtype : torch.dtype
        To compute in.

    Returns
    -------
    rows : Tensor, (groups, rows, components)
        Views.
    weight : Tensor, (groups, weights)
        The same weights.
    """
    groups = weight.shape[0]
    each = x.shape[0] // groups if groups else 0
    return x.to(dtype).reshape(groups, each, x.shape[1]), weight.to(dtype)


def _segment(rows: Tensor, offset: int, mul: int, d: int, ir_mul: bool) -> Tensor:
    part = rows.narrow(-1, offset, mul * d)
    return part.unflatten(-1, (d, mul)).mT if ir_mul else part.unflatten(-1, (mul, d))


def _add(rows: Tensor, offset: int, part: Tensor) -> Tensor:
    part = part.flatten(-2)
    size = part.shape[-1]
    before, behind = rows[..., :offset], rows[..., offset + size :]
    return torch.cat([before, rows.narrow(-1, offset, size) + part, behind], dim=-1)
