"""Products whose paths all keep the channels of the first input, as one op."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from equigeo.ops import PathTable, channelwise_product
from equigeo.tensor_products.paths.instruction import Instruction
from equigeo.tensor_products.paths.leading_axes import as_rows, from_rows
from equigeo.tensor_products.paths.path_tables import StoredTable, path_table
from equigeo.tensor_products.paths.resolve import Operands, terms_of

LARGEST_DEGREE = 6  # of the first input; the op keeps its components in registers


def channelwise_paths(
    instructions: Sequence[Instruction], operands: Operands
) -> ChannelwisePaths | None:
    """Gather the paths for the op; None where another connection or a mixture needs more."""
    paths = [path for path in instructions if 0 not in path.path_shape]
    weighted = {path.has_weight for path in paths}
    degrees = [terms_of(path, operands)[0][1][0] for path in paths]
    fits = all(path.connection == "uvu" for path in paths) and len(weighted) == 1
    if not fits or max(degrees) > LARGEST_DEGREE:
        return None
    return ChannelwisePaths(instructions, operands)


class ChannelwisePaths(nn.Module):
    """The table of :func:`equigeo.ops.channelwise_product` for some instructions.

    Parameters
    ----------
    instructions : sequence of Instruction
        All ``uvu``, all with weights or all without.
    operands : (Irreps, Irreps, Irreps)
        What they join.
    """

    def __init__(self, instructions: Sequence[Instruction], operands: Operands) -> None:
        super().__init__()
        self.stored = StoredTable(path_table(instructions, operands, by_output=True))

    @staticmethod
    def accepts(x: Tensor) -> bool:
        """Whether the op takes the dtype of these features."""
        return x.dtype in (torch.float32, torch.float64, torch.bfloat16)

    def table(self, dtype: torch.dtype) -> PathTable:
        """Give the table for features of a dtype, on the device of the module."""
        table: PathTable = self.stored(dtype)
        return table

    def forward(self, x: Tensor, y: Tensor, weight: Tensor | None, batch: torch.Size) -> Tensor:
        """Multiply rows; leading axes are broadcast to ``batch``."""
        weights = None if weight is None else as_rows(weight, batch)
        out = channelwise_product(
            as_rows(x, batch), as_rows(y, batch), weights, self.table(x.dtype)
        )
        return from_rows(out, batch)
