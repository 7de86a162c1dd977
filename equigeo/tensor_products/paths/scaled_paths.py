"""Instructions whose second input holds scalars only: linear maps of the first, scaled by them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

import torch
from torch import Tensor

from equigeo.nn.channel_mixing import ChannelMixing, MixingBlock
from equigeo.tensor_products.paths.compiled_paths import CompiledPaths
from equigeo.tensor_products.paths.instruction import Instruction
from equigeo.tensor_products.paths.path_tables import coefficients, weight_starts
from equigeo.tensor_products.paths.resolve import Operands
from equigeo.tensor_products.paths.row_matrices import RowMatrices


@final
class ScaledPaths(CompiledPaths):
    r"""Paths ``uvw`` with scalars, by the same weights for all rows.

    A coupling with a scalar is the identity up to a factor c, so that nothing has to be coupled:

    .. math:: z_w = \sum_{uv} (c\, w_{uvw})\, x_u\, y_v

    Parameters
    ----------
    instructions : sequence of Instruction
        Resolved, all ``uvw``.
    operands : (Irreps, Irreps, Irreps)
        What they join; the second holds scalars, of either parity.
    """

    def __init__(self, instructions: Sequence[Instruction], operands: Operands) -> None:
        super().__init__()
        first, second, out = operands
        *starts, numel = weight_starts(instructions)
        # One scalar scales whole rows, before channels are taken apart.
        self.by_row = second.dim == 1
        blocks = []
        for path, start in zip(instructions, starts, strict=True):
            if 0 in path.path_shape:
                continue
            factor = float(coefficients(path, operands)[0, 0, 0])
            shape = path.path_shape[::2] if self.by_row else path.path_shape
            place, scalar = first.slices()[path.i_in1].start, second.slices()[path.i_in2].start
            blocks.append(MixingBlock(place, path.i_out, shape, start, factor, scalar))
        self.mixing = ChannelMixing(first, out, blocks, numel)
        self.matrices = None if self.by_row else RowMatrices(first, out, blocks)

    def accepts(self, x: Tensor, weight: Tensor | None) -> bool:
        """Whether all rows have the same weights: there is no op that could be missing."""
        return weight is not None and weight.ndim == 1

    def weight_rows(self, weight: Tensor, batch: torch.Size) -> Tensor:
        """Leave the weights as they are."""
        return weight

    def multiply(self, x: Tensor, y: Tensor, weight: Tensor | None) -> Tensor:
        """Scale channels, and mix them term by term of the output."""
        if weight is None:
            raise ValueError("weight is missing")
        if self.by_row:
            return self.mixing(x * y, weight)
        if self.matrices is not None and self.matrices.takes(x, weight):
            return self.matrices.mix(x, y, weight)
        return self.mixing(x, weight, y)
