"""The change between matrices of orders and weights of Clebsch-Gordan paths."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor, nn

from equigeo._core.cache import kept
from equigeo.ops import SO2Table
from equigeo.reps.wigner import wigner_3j_table


class SO2Path(NamedTuple):
    """A path of the Clebsch-Gordan product that a convolution by orders equals."""

    term_in: int  # input term
    filter_degree: int  # degree of the edge harmonics
    term_out: int  # output term


class SO2Paths(nn.Module):
    """Conversion between path weights and matrices of orders for the terms of a convolution."""

    def __init__(self, table: SO2Table) -> None:
        super().__init__()
        self.table = table
        self.paths = tuple(
            SO2Path(i, lf, o)
            for i in range(len(table.terms_in))
            for o in range(len(table.terms_out))
            for lf in self._degrees(i, o)
        )
        self.sizes = [
            table.terms_in[p.term_in][0] * table.terms_out[p.term_out][0] for p in self.paths
        ]
        self.numel = sum(self.sizes)

    def to_matrices(
        self,
        h: Tensor,  # (numel,): a matrix (copies in, copies out) per path, normalized
    ) -> Tensor:  # (table.weight_numel,)
        """Return the matrices of orders of path weights, up to the largest order."""
        # With C of unit norm and component-normalized harmonics: W_1^m is the sum over l_f of
        # sqrt(2 l_f + 1) C_{m,0,m} h_{l_f}, W_2^m that with C_{m,0,-m}, over paths with an even and
        # an odd sum of degrees.
        blocks: dict[tuple[int, int], Tensor] = {}  # (2, orders, copies out, copies in)
        parts = list(h.split(self.sizes))
        for i, (mul, l1, swapped) in enumerate(self.table.terms_in):
            for o, (mul_out, l3, out_swapped) in enumerate(self.table.terms_out):
                degrees = self._degrees(i, o)
                given = [parts.pop(0) for _ in degrees]
                stacked = torch.stack(given) if given else h.new_zeros(0, mul * mul_out)
                each = stacked.view(len(degrees), mul, mul_out).mT
                rows = [lf - abs(l1 - l3) for lf in degrees]
                coefficients = path_coefficients(l1, l3).to(h)[rows, :, : self.table.mmax + 1]
                blocks[o, i] = torch.einsum("fpm,foi->pmoi", coefficients, each)
                if not self.table.complex_weights and swapped != out_swapped:
                    sign = -1 if out_swapped else 1
                    blocks[o, i] = torch.stack([sign * blocks[o, i][1], 0 * blocks[o, i][1]])
        return self._assemble(blocks, h)

    def matrix(self) -> Tensor:  # (table.weight_numel, numel)
        """Return the linear map of :meth:`to_matrices`."""
        units = torch.eye(self.numel, dtype=torch.float64)
        return torch.stack([self.to_matrices(unit) for unit in units], dim=1)

    def from_matrices(
        self,
        weight: Tensor,  # (table.weight_numel,)
    ) -> Tensor:  # (numel,)
        """Return the path weights of matrices; orders beyond mmax are zero."""
        # Orders above 0 stand for two components. With these weights the change is orthogonal, and
        # the least weights are those without the other orders.
        return torch.linalg.pinv(self.matrix()) @ weight

    def _degrees(self, i: int, o: int) -> list[int]:
        """Return the filter degrees between two terms."""
        (_, l1, swapped), (_, l3, out_swapped) = self.table.terms_in[i], self.table.terms_out[o]
        degrees = range(abs(l1 - l3), l1 + l3 + 1)
        if self.table.complex_weights:
            return list(degrees)
        return [lf for lf in degrees if (l1 + lf + l3) % 2 == (swapped != out_swapped)]

    def _assemble(self, blocks: dict[tuple[int, int], Tensor], like: Tensor) -> Tensor:
        """Flatten the blocks of all pairs of terms."""
        table = self.table
        found, parts = [like[:0]], [0] * (table.mmax + 1)
        for m, _, _ in table.matrices:
            part, parts[m] = parts[m], parts[m] + 1
            sent = [i for i, term in enumerate(table.terms_in) if term[1] >= m]
            found += [
                torch.cat([blocks[o, i][part, m] for i in sent], dim=1).flatten()
                for o, term in enumerate(table.terms_out)
                if term[1] >= m and sent
            ]
        return torch.cat(found)


@kept
def path_coefficients(
    l1: int,  # input degree
    l3: int,  # output degree
) -> Tensor:  # (paths, real and imaginary, orders), float64
    """Return the cached contribution of each path between two degrees to the orders."""
    top = min(l1, l3)
    found = torch.zeros(2 * top + 1, 2, top + 1, dtype=torch.float64)
    for row, lf in enumerate(range(abs(l1 - l3), l1 + l3 + 1)):
        middle = math.sqrt(2 * lf + 1) * wigner_3j_table(l1, lf, l3)[:, lf]
        for m in range(top + 1):
            found[row, 0, m] = middle[l1 + m, l3 + m]
            if m:
                found[row, 1, m] = middle[l1 + m, l3 - m]
    return found
