"""From the parameters of a convolution by orders to its matrices, and back."""

from __future__ import annotations

from itertools import chain

import torch
from torch import Tensor, nn

from equigeo.nn.index_tables import IndexTables
from equigeo.ops import SO2Table


class SO2Weights(nn.Module):
    """Scale parameters for unit output variance and arrange them as matrices of orders."""

    def __init__(self, table: SO2Table) -> None:
        super().__init__()
        self.table = table
        self._runs, allowed = _order_runs(table)
        self.numel = sum(count for count, _ in self._runs)
        self._is_dense = self.numel == table.weight_numel
        self._allowed = IndexTables(**({} if self._is_dense else {"allowed": allowed}))

    def forward(self, numbers: Tensor) -> Tensor:
        """Return the matrices of :func:`equigeo.ops.so2_conv`, (table.weight_numel,)."""
        counts = [count for count, _ in self._runs]
        parts = numbers.split(counts)
        scaled = [part * scale for part, (_, scale) in zip(parts, self._runs, strict=True)]
        found = torch.cat([numbers[:0], *scaled])
        if self._is_dense:
            return found
        empty = found.new_zeros(self.table.weight_numel)
        return empty.index_copy(0, self._allowed["allowed"], found)

    def numbers_of(self, matrices: Tensor) -> Tensor:
        """Return the parameters of given matrices, without forbidden entries."""
        found = matrices
        if not self._is_dense:
            found = matrices.index_select(0, self._allowed["allowed"])
        parts = found.split([count for count, _ in self._runs])
        divided = [part / scale for part, (_, scale) in zip(parts, self._runs, strict=True)]
        return torch.cat([matrices[:0], *divided])


def _order_runs(table: SO2Table) -> tuple[list[tuple[int, float]], Tensor]:
    """Return lengths and factors of runs of parameters, and positions of all matrix entries."""
    runs: list[tuple[int, float]] = []
    positions: list[range] = []
    offset = 0
    for m, rows, columns in table.matrices:
        if m == 0 and not table.complex_weights:
            found = _order_zero(table)
            runs += [(count, scale) for count, scale, _ in found]
            positions += list(chain.from_iterable(where for _, _, where in found))
        else:
            # Two components of unit variance come from real and imaginary parts.
            terms = columns * (2 if m > 0 and table.complex_weights else 1)
            runs.append((rows * columns, max(1, terms) ** -0.5))
            positions.append(range(offset, offset + rows * columns))
        offset += rows * columns
    return runs, torch.cat([torch.arange(0), *(torch.arange(r.start, r.stop) for r in positions)])


def _order_zero(table: SO2Table) -> list[tuple[int, float, list[range]]]:
    """Return the rows of order 0, each with the columns that parity allows."""
    columns = table.widths_in[0]
    found = []
    row = 0
    for mul_out, _, out_swapped in table.terms_out:
        starts, at = [], 0
        for mul, _, swapped in table.terms_in:
            starts += [(at, at + mul)] if swapped == out_swapped else []
            at += mul
        width = sum(stop - start for start, stop in starts)
        for _ in range(mul_out):
            where = [range(row * columns + a, row * columns + b) for a, b in starts]
            found.append((width, max(1, width) ** -0.5, where))
            row += 1
    return found
