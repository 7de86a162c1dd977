"""Products along paths that keep the channels of the first input, as one op."""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

import torch
from torch import Tensor

from equigeo.ops import PathTable
from equigeo.ops.products.channelwise_product import channelwise_product_op
from equigeo.tensor_products.paths.compiled_paths import CompiledPaths
from equigeo.tensor_products.paths.instruction import Instruction
from equigeo.tensor_products.paths.path_tables import StoredTable, path_table
from equigeo.tensor_products.paths.resolve import Operands


@final
class ChannelwisePaths(CompiledPaths):
    """Paths ``uvu``, all with or all without weights, as one channelwise product."""

    op = "channelwise_product"

    def __init__(self, instructions: Sequence[Instruction], operands: Operands) -> None:
        super().__init__()
        self.stored = StoredTable(path_table(instructions, operands, by_output=True))

    def accepts(self, x: Tensor, weight: Tensor | None) -> bool:
        """Return whether the op supports the dtype of the features."""
        return x.dtype in (torch.float32, torch.float64, torch.bfloat16)

    def table(self, dtype: torch.dtype) -> PathTable:
        """Return the table for features of a dtype, on the device of the module."""
        return self.stored.for_dtype(dtype)

    def multiply(self, x: Tensor, y: Tensor, weight: Tensor | None) -> Tensor:
        """Multiply each channel of the first input with all of the second and sum over these."""
        table = self.table(x.dtype)
        tables = (table.paths, table.entries, table.values)
        out: Tensor = channelwise_product_op(x, y, weight, *tables, table.dim_out, table.ir_mul)
        return out
