"""Evaluators that run a list of instructions as one compiled op."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar, final

import torch
from torch import Tensor, nn

from equigeo.ops import runs_compiled
from equigeo.ops.products.copywise_product import copywise_product_op
from equigeo.ops.products.fully_connected_product import fully_connected_product_op
from equigeo.tensor_products.paths.instruction import Instruction
from equigeo.tensor_products.paths.leading_axes import as_rows, from_rows
from equigeo.tensor_products.paths.path_tables import StoredTable, path_table
from equigeo.tensor_products.paths.resolve import Operands


class CompiledPaths(nn.Module, ABC):
    """Base of groups of instructions that an op evaluates on rows."""

    op: ClassVar[str]

    def accepts(self, x: Tensor, weight: Tensor | None) -> bool:
        """Return whether the op supports these inputs and is compiled for their device."""
        return x.dtype in (torch.float32, torch.float64) and runs_compiled(self.op, x.device)

    def evaluate(
        self,
        x: Tensor,
        y: Tensor,
        weight: Tensor | None,
        batch: torch.Size,  # broadcast leading axes
    ) -> Tensor:
        """Multiply validated inputs; not ``forward``, to avoid the overhead of a module call."""
        weights = None if weight is None else self.weight_rows(weight, batch)
        out = self.multiply(as_rows(x, batch), as_rows(y, batch), weights)
        return from_rows(out, batch)

    def weight_rows(self, weight: Tensor, batch: torch.Size) -> Tensor:
        """Reshape weights to one leading axis."""
        return as_rows(weight, batch)

    @abstractmethod
    def multiply(
        self,
        x: Tensor,  # (rows, dim)
        y: Tensor,  # (rows, dim)
        weight: Tensor | None,  # (rows, weight_numel), from weight_rows
    ) -> Tensor:  # (rows, irreps_out.dim), contiguous
        """Multiply row by row."""


@final
class CopywisePaths(CompiledPaths):
    """Paths ``uvuv`` or ``uuu``, all with or all without weights."""

    op = "copywise_product"

    def __init__(self, instructions: Sequence[Instruction], operands: Operands) -> None:
        super().__init__()
        self.stored = StoredTable(path_table(instructions, operands))

    def multiply(self, x: Tensor, y: Tensor, weight: Tensor | None) -> Tensor:
        """Multiply the connected pairs of copies, one output copy per pair."""
        table = self.stored.for_dtype(x.dtype)
        tables = (table.paths, table.entries, table.values)
        out: Tensor = copywise_product_op(x, y, weight, *tables, table.dim_out)
        return out


@final
class FullyConnectedPaths(CompiledPaths):
    """Paths ``uvw`` with weights per row."""

    op = "fully_connected_product"

    def __init__(self, instructions: Sequence[Instruction], operands: Operands) -> None:
        super().__init__()
        self.stored = StoredTable(path_table(instructions, operands))

    def accepts(self, x: Tensor, weight: Tensor | None) -> bool:
        """Return whether the op supports the inputs and weights have rows."""
        return super().accepts(x, weight) and weight is not None and weight.ndim > 1

    def multiply(self, x: Tensor, y: Tensor, weight: Tensor | None) -> Tensor:
        """Multiply all pairs of channels and mix them by the weights of their row."""
        if weight is None:
            raise ValueError("weight is missing")
        table = self.stored.for_dtype(x.dtype)
        tables = (table.paths, table.entries, table.values)
        out: Tensor = fully_connected_product_op(x, y, weight, *tables, table.dim_out)
        return out
