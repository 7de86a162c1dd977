"""A product of signals as the sum of its paths."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import final

import torch
from torch import Tensor, nn

from equigeo.nn import Tables
from equigeo.reps.wigner_3j import wigner_3j_table


@final
class PathMethod(nn.Module):
    """Multiply signals by one dense matrix from pairs of components to outputs."""

    # The matrix is mostly zeros, but in PyTorch a dense product is much faster than gather and add.
    def __init__(
        self,
        lmax1: int,
        lmax2: int,
        lmax_out: int,
        # returns the coefficient of wigner_3j of a triple of degrees
        coupling: Callable[[int, int, int], float],
    ) -> None:
        super().__init__()
        dims = [(lmax + 1) ** 2 for lmax in (lmax1, lmax2, lmax_out)]
        table = torch.zeros(dims, dtype=torch.float64, device="cpu")
        for degrees in product(range(lmax1 + 1), range(lmax2 + 1), range(lmax_out + 1)):
            kappa = coupling(*degrees)
            if kappa != 0:
                # Degree l stands at l^2 to (l + 1)^2 in a signal.
                rows, columns, layers = (slice(l * l, (l + 1) ** 2) for l in degrees)
                table[rows, columns, layers] = kappa * wigner_3j_table(*degrees)
        self._nonzeros = int(table.count_nonzero())
        self.tables = Tables(paths=table.flatten(0, 1))

    def multiply_adds(self) -> int:
        """Return the number of nonzeros."""
        return self._nonzeros

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        """Multiply all pairs of components and sum them by the table."""
        pairs = (x[:, :, None] * y[:, None, :]).flatten(1)
        return pairs @ self.tables["paths", x.dtype]
