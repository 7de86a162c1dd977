"""Instructions whose second input is one scalar: a linear map of the first, scaled by it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, final

import torch
from torch import Tensor

from equigeo.nn import Tables
from equigeo.tensor_products.paths.compiled_paths import CompiledPaths
from equigeo.tensor_products.paths.instruction import Instruction
from equigeo.tensor_products.paths.path_tables import coefficients, weight_starts
from equigeo.tensor_products.paths.resolve import Operands


class _Block(NamedTuple):
    """One instruction: where its term and its weights begin, and how many channels it has."""

    start: int
    mul: int
    weight: int


@final
class ScaledPaths(CompiledPaths):
    r"""Paths ``uvw`` with a single scalar, by the same weights for all rows.

    A coupling with a scalar is the identity up to a factor c, so that nothing has to be coupled:

    .. math:: z_w = y \sum_u (c\, w_{uw})\, x_u

    Parameters
    ----------
    instructions : sequence of Instruction
        Resolved, all ``uvw``.
    operands : (Irreps, Irreps, Irreps)
        What they join; the second is one scalar, of either parity.
    """

    def __init__(self, instructions: Sequence[Instruction], operands: Operands) -> None:
        super().__init__()
        first, _, self.out = operands
        self.ir_mul = self.out.layout == "ir_mul"
        *starts, numel = weight_starts(instructions)
        factors = torch.ones(numel, dtype=torch.float64)
        self.blocks: list[list[_Block]] = [[] for _ in self.out.terms]
        for path, start in zip(instructions, starts, strict=True):
            mul, _, mul_out = path.path_shape
            if mul and mul_out:
                factors[start : start + mul * mul_out] = coefficients(path, operands)[0, 0, 0]
                begin = first.slices()[path.i_in1].start
                self.blocks[path.i_out].append(_Block(begin, mul, start))
        self.tables = Tables(factors=factors)

    def accepts(self, x: Tensor, weight: Tensor | None) -> bool:
        """Whether all rows have the same weights: there is no op that could be missing."""
        return weight is not None and weight.ndim == 1

    def weight_rows(self, weight: Tensor, batch: torch.Size) -> Tensor:
        """Leave the weights as they are."""
        return weight

    def multiply(self, x: Tensor, y: Tensor, weight: Tensor | None) -> Tensor:
        """Scale rows, and mix channels term by term of the output."""
        if weight is None:
            raise ValueError("weight is missing")
        x, weight = x * y, weight * self.tables["factors", weight.dtype]
        parts = [x.new_zeros(x.shape[0], 0)]
        for blocks, (mul, (l, _)) in zip(self.blocks, self.out.terms, strict=True):
            if blocks:
                parts.append(self._mix(x, weight, blocks, 2 * l + 1, mul))
            else:
                parts.append(x.new_zeros(x.shape[0], mul * (2 * l + 1)))
        return torch.cat(parts, dim=1)

    def _mix(self, x: Tensor, weight: Tensor, blocks: list[_Block], dim: int, mul: int) -> Tensor:
        """Mix all channels that lead to a term, (rows, mul * dim), by one matrix product."""
        channels, weights = [], []
        for start, count, begin in blocks:
            term = x.narrow(1, start, count * dim)
            # Components outside: one matrix product for all rows and components.
            if dim > 1 and not self.ir_mul:
                term = term.unflatten(1, (count, dim)).mT
            channels.append(term.reshape(-1, count))
            weights.append(weight.narrow(0, begin, count * mul).view(count, mul))
        one = len(blocks) == 1
        z = (channels[0] if one else torch.cat(channels, 1)) @ (
            weights[0] if one else torch.cat(weights)
        )
        if dim > 1 and not self.ir_mul:
            z = z.view(x.shape[0], dim, mul).mT
        return z.reshape(x.shape[0], mul * dim)
