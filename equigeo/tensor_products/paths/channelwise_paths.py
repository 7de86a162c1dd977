"""Products whose paths all keep the channels of the first input, as one op."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate
from typing import final

import torch
from torch import Tensor

from equigeo.nn import Tables
from equigeo.ops import Coupling, PathTable, channelwise_product
from equigeo.reps.wigner_3j import wigner_3j_table
from equigeo.tensor_products.paths.compiled_paths import CompiledPaths
from equigeo.tensor_products.paths.index_tables import IndexTables
from equigeo.tensor_products.paths.instruction import Instruction
from equigeo.tensor_products.paths.resolve import Operands, terms_of


@final
class ChannelwisePaths(CompiledPaths):
    """The table of :func:`equigeo.ops.channelwise_product` for some instructions.

    Parameters
    ----------
    instructions : sequence of Instruction
        All ``uvu``, all with weights or all without.
    operands : (Irreps, Irreps, Irreps)
        What they join.
    """

    op = "channelwise_product"

    def __init__(self, instructions: Sequence[Instruction], operands: Operands) -> None:
        super().__init__()
        sizes = [math.prod(path.path_shape) if path.has_weight else 0 for path in instructions]
        couplings = [
            _coupling(path, operands, start)
            for path, start in zip(instructions, accumulate([0, *sizes]), strict=False)
            if 0 not in path.path_shape
        ]
        first, second, out = operands
        self.dims = (first.dim, second.dim, sum(sizes), out.dim)
        self.ir_mul = first.layout == "ir_mul"
        table = PathTable.from_couplings(couplings, self.dims, ir_mul=self.ir_mul)
        self.numbers = IndexTables(paths=table.paths, entries=table.entries)
        self.tables = Tables(values=table.values)

    def accepts(self, x: Tensor, weight: Tensor | None) -> bool:
        """Whether the op takes the dtype of these features; it has rules for transforms."""
        return x.dtype in (torch.float32, torch.float64, torch.bfloat16)

    def table(self, dtype: torch.dtype) -> PathTable:
        """Give the table for features of a dtype, on the device of the module."""
        computed = torch.float32 if dtype == torch.bfloat16 else dtype
        values = self.tables["values", computed]
        return PathTable(
            self.numbers["paths"], self.numbers["entries"], values, *self.dims, self.ir_mul
        )

    def multiply(self, x: Tensor, y: Tensor, weight: Tensor | None) -> Tensor:
        """Multiply each channel of the first input with all of the second, and sum over these."""
        return channelwise_product(x, y, weight, self.table(x.dtype))


def _coupling(path: Instruction, operands: Operands, weight: int) -> Coupling:
    (mul, (l1, _)), (mul2, (l2, _)), (_, (l3, _)) = terms_of(path, operands)
    places = (path.i_in1, path.i_in2, path.i_out)
    x, y, out = (irreps.slices()[n].start for irreps, n in zip(operands, places, strict=True))
    coefficients = path.path_weight * wigner_3j_table(l1, l2, l3)
    return Coupling(x, y, out, weight if path.has_weight else None, mul, mul2, coefficients)
