"""Instructions that mix channels by the same weights for all rows, as matrix products."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import final

import torch
from torch import Tensor, nn

from equigeo.ops import Path, PathTable, Segment
from equigeo.ops.products.copywise_product import copywise_product_op
from equigeo.tensor_products.paths.compiled_paths import CompiledPaths
from equigeo.tensor_products.paths.instruction import Instruction
from equigeo.tensor_products.paths.path_tables import (
    StoredTable,
    coefficients,
    segments,
    weight_starts,
)
from equigeo.tensor_products.paths.resolve import Operands, terms_of


@final
class MixedPaths(CompiledPaths):
    """Paths ``uvw`` or ``uuw`` with shared weights, evaluated per output term."""

    op = "copywise_product"

    def __init__(self, instructions: Sequence[Instruction], operands: Operands) -> None:
        super().__init__()
        self.out = operands[2]
        starts = weight_starts(instructions)
        self.mixers = nn.ModuleDict()
        for n in range(len(self.out.terms)):
            into = [
                (start, path)
                for path, start in zip(instructions, starts, strict=False)
                if path.i_out == n and 0 not in path.path_shape
            ]
            if into:
                self.mixers[str(n)] = TermMixer(into, operands)

    def accepts(self, x: Tensor, weight: Tensor | None) -> bool:
        """Return whether the op supports the inputs and all rows share the weights."""
        return super().accepts(x, weight) and (weight is None or weight.ndim == 1)

    def weight_rows(self, weight: Tensor, batch: torch.Size) -> Tensor:
        """Return the weights unchanged."""
        return weight

    def multiply(self, x: Tensor, y: Tensor, weight: Tensor | None) -> Tensor:
        """Couple and mix per output term."""
        parts = [x.new_zeros(x.shape[0], 0)]
        for n, (mul, (l, _)) in enumerate(self.out.terms):
            if str(n) in self.mixers:
                z = self.mixers[str(n)](x, y, weight)
                parts.append((z.mT if self.out.layout == "mul_ir" else z).flatten(1))
            else:
                parts.append(x.new_zeros(x.shape[0], mul * (2 * l + 1)))
        return torch.cat(parts, dim=1)


class TermMixer(nn.Module):
    """Paths into one output term: one op couples all channels, one matrix product mixes them."""

    def __init__(
        self,
        paths: Sequence[tuple[int, Instruction]],  # instructions with the offsets of their weights
        operands: Operands,
    ) -> None:
        super().__init__()
        counts = [_couplings(path, operands) for _, path in paths]
        *offsets, self.channels = accumulate(counts, initial=0)
        _, _, (self.mul, (l, _)) = terms_of(paths[0][1], operands)
        self.components = 2 * l + 1
        self.blocks = []
        rows = []
        for (start, path), offset, count in zip(paths, offsets, counts, strict=True):
            x, y, _ = segments(path, operands)
            out = Segment(offset, count, self.components, 1, self.channels)
            rows.append(Path(x, y, out, None, coefficients(path, operands)))
            self.blocks.append((start if path.has_weight else None, count))
        dims = (operands[0].dim, operands[1].dim, 0, self.channels * self.components)
        self.stored = StoredTable(PathTable.from_paths(rows, dims))

    def forward(self, x: Tensor, y: Tensor, weight: Tensor | None) -> Tensor:
        """Couple rows and mix, to (rows, components, mul)."""
        table = self.stored.for_dtype(x.dtype)
        tables = (table.paths, table.entries, table.values)
        couplings: Tensor = copywise_product_op(x, y, None, *tables, table.dim_out)
        mixed = couplings.view(-1, self.channels) @ self._matrix(weight, x)
        return mixed.view(x.shape[0], self.components, self.mul)

    def _matrix(self, weight: Tensor | None, like: Tensor) -> Tensor:
        """Return the weights of all paths, (channels, mul), with ones for paths without weights."""
        blocks = []
        for start, count in self.blocks:
            if weight is None or start is None:
                blocks.append(like.new_ones(count, self.mul))
            else:
                blocks.append(weight.narrow(0, start, count * self.mul).view(count, self.mul))
        return torch.cat(blocks)


def _couplings(path: Instruction, operands: Operands) -> int:
    """Return the number of coupled channels."""
    (mul, _), (mul2, _), _ = terms_of(path, operands)
    return mul if path.connection == "uuw" else mul * mul2
