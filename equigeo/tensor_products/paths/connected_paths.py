"""Instructions whose channels meet in pairs, each set as one op."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from equigeo.ops import copywise_product, fully_connected_product
from equigeo.tensor_products.paths.instruction import Instruction
from equigeo.tensor_products.paths.leading_axes import as_rows, from_rows
from equigeo.tensor_products.paths.path_tables import StoredTable, path_table
from equigeo.tensor_products.paths.resolve import Operands


class ConnectedPaths(nn.Module):
    """Some instructions, evaluated on rows.

    Subclasses implement ``multiply`` for features and weights with one leading axis.
    """

    def accepts(self, x: Tensor, weight: Tensor | None) -> bool:
        """Whether ops take these features and weights, and have kernels for them."""
        return x.is_cpu and x.dtype in (torch.float32, torch.float64) and not _is_transformed()

    def forward(self, x: Tensor, y: Tensor, weight: Tensor | None, batch: torch.Size) -> Tensor:
        """Multiply; leading axes are broadcast to ``batch``."""
        weights = None if weight is None else self.weight_rows(weight, batch)
        out = self.multiply(as_rows(x, batch), as_rows(y, batch), weights)
        return from_rows(out, batch)

    def weight_rows(self, weight: Tensor, batch: torch.Size) -> Tensor:
        """Give weights one leading axis."""
        return as_rows(weight, batch)

    def multiply(self, x: Tensor, y: Tensor, weight: Tensor | None) -> Tensor:
        """Multiply row by row."""
        raise NotImplementedError


class CopywisePaths(ConnectedPaths):
    """Paths ``uvuv`` or ``uuu``, all with weights or all without."""

    def __init__(self, instructions: Sequence[Instruction], operands: Operands) -> None:
        super().__init__()
        self.table = StoredTable(path_table(instructions, operands))

    def multiply(self, x: Tensor, y: Tensor, weight: Tensor | None) -> Tensor:
        """Multiply row by row."""
        return copywise_product(x, y, weight, self.table(x.dtype))


class FullyConnectedPaths(ConnectedPaths):
    """Paths ``uvw`` with weights of every row."""

    def __init__(self, instructions: Sequence[Instruction], operands: Operands) -> None:
        super().__init__()
        self.table = StoredTable(path_table(instructions, operands))

    def accepts(self, x: Tensor, weight: Tensor | None) -> bool:
        """Whether the op takes these features and weights."""
        return super().accepts(x, weight) and weight is not None and weight.ndim > 1

    def multiply(self, x: Tensor, y: Tensor, weight: Tensor | None) -> Tensor:
        """Multiply row by row."""
        if weight is None:
            raise ValueError("weight is missing")
        return fully_connected_product(x, y, weight, self.table(x.dtype))


def _is_transformed() -> bool:
    """Whether a transform of torch.func is at work, which ops without a rule for it refuse."""
    return not torch.compiler.is_compiling() and torch._C._are_functorch_transforms_active()
