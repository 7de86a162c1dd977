"""Instructions with scalars as second input: linear maps of the first, scaled by them."""

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
    """Paths ``uvw`` with scalars as second input and shared weights."""

    # A coupling with a scalar is a multiple c of the identity: z_w = sum_uv (c w_uvw) x_u y_v.
    def __init__(self, instructions: Sequence[Instruction], operands: Operands) -> None:
        super().__init__()
        first, second, out = operands
        *starts, numel = weight_starts(instructions)
        # A single scalar scales whole rows before they are split into channels.
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
        """Return whether all rows share the weights; no op is required."""
        return weight is not None and weight.ndim == 1

    def weight_rows(self, weight: Tensor, batch: torch.Size) -> Tensor:
        """Return the weights unchanged."""
        return weight

    def multiply(self, x: Tensor, y: Tensor, weight: Tensor | None) -> Tensor:
        """Scale channels and mix them per output term."""
        if weight is None:
            raise ValueError("weight is missing")
        if self.by_row:
            return self.mixing(x * y, weight)
        if self.matrices is not None and self.matrices.takes(x, weight):
            return self.matrices.mix(x, y, weight)
        return self.mixing(x, weight, y)
