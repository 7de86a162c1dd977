"""The blocks of a linear map of rows, as reference implementations read them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

COLUMNS = 6


@dataclass(frozen=True, eq=False)
class LinearBlock:
    """One row of the argument ``blocks``, with its factor."""

    x: int  # offset of the input segment
    mul: int  # copies of the input segment
    out: int  # offset of the output segment
    mul_out: int  # copies of the output segment
    d: int  # components of both
    weight: int  # offset of the (mul, mul_out) matrix
    factor: Tensor  # scalar multiplier of the matrix

    def matrix(self, weight: Tensor) -> Tensor:
        """Return matrices (groups, 1, mul, mul_out) from weights (groups, weights)."""
        flat = weight.narrow(-1, self.weight, self.mul * self.mul_out)
        return self.factor * flat.unflatten(-1, (1, self.mul, self.mul_out))

    def input(self, rows: Tensor, ir_mul: bool) -> Tensor:
        """Return the input segment, (..., mul, d)."""
        return _segment(rows, self.x, self.mul, self.d, ir_mul)

    def output(self, rows: Tensor, ir_mul: bool) -> Tensor:
        """Return the output segment, (..., mul_out, d)."""
        return _segment(rows, self.out, self.mul_out, self.d, ir_mul)

    def add_input(self, rows: Tensor, part: Tensor, ir_mul: bool) -> Tensor:
        """Add (..., mul, d) to the input segment, out of place."""
        return _add(rows, self.x, part.mT if ir_mul else part)

    def add_output(self, rows: Tensor, part: Tensor, ir_mul: bool) -> Tensor:
        """Add (..., mul_out, d) to the output segment, out of place."""
        return _add(rows, self.out, part.mT if ir_mul else part)

    def add_matrix(self, weight: Tensor, part: Tensor) -> Tensor:
        """Add (groups, mul, mul_out) to the gradient of the weights, out of place."""
        return _add(weight, self.weight, self.factor * part)


def read_blocks(
    blocks: Tensor,  # (blocks, 6), int64
    factors: Tensor,  # (blocks,)
) -> Iterator[LinearBlock]:
    """Yield one block per row of ``blocks``."""
    for (x, mul, out, mul_out, d, weight), factor in zip(blocks.tolist(), factors, strict=True):
        yield LinearBlock(x, mul, out, mul_out, d, weight, factor)


def in_groups(
    x: Tensor,  # (groups * rows, components)
    weight: Tensor,  # (groups, weights)
    dtype: torch.dtype,
) -> tuple[Tensor, Tensor]:  # (groups, rows, components), (groups, weights)
    """Split rows into the groups that share weights, and cast both to the compute dtype."""
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
