"""Polynomials of a feature with the op that evaluates them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import final

from torch import Tensor, nn

from equigeo.nn import Tables
from equigeo.nn.index_tables import IndexTables
from equigeo.ops import Polynomial, PolynomialTable, symmetric_contraction
from equigeo.ops.runtime.storage import computed_in
from equigeo.ops.runtime.torch_internals import plain_tensors
from equigeo.tensor_products.products.symmetric_basis import monomials

_POSITIONS = "products", "polynomials", "groups", "nodes"  # in the order of PolynomialTable


@final
class SymmetricPolynomials(nn.Module):
    """Polynomials of bases as a table for :func:`equigeo.ops.symmetric_contraction`."""

    def __init__(
        self,
        variables: int,
        # per degree and output, (basis, 2 l + 1, monomials) each
        bases: Sequence[Sequence[Tensor]],
    ) -> None:
        super().__init__()
        self.sizes = [basis.shape[1] for basis in bases[0]]
        found: list[Polynomial] = []
        weight = 0
        for degree, row in enumerate(bases, 1):
            for start, basis in zip(accumulate([0, *self.sizes]), row, strict=False):
                for polynomial in basis:
                    found += _components(polynomial, start, weight, monomials(variables, degree))
                    weight += 1
        with plain_tensors():
            table = PolynomialTable.from_polynomials(found, [variables], self.sizes)
        self.positions = IndexTables(**{name: getattr(table, name) for name in _POSITIONS})
        self.levels = table.levels
        self.tables = Tables(values=table.values)

    def forward(
        self, x: Tensor, weight: Tensor, index: Tensor, dims_in: Sequence[int], ir_mul: bool
    ) -> Tensor:
        """Evaluate rows of features with the weights selected by ``index``."""
        dims_out = [1] * sum(self.sizes) if ir_mul else self.sizes
        products, polynomials, groups, nodes = (self.positions[name] for name in _POSITIONS)
        table = PolynomialTable(
            products,
            polynomials,
            groups,
            nodes,
            self.tables["values", computed_in(x.dtype)],
            self.levels,
            dims_in,
            dims_out,
        )
        return symmetric_contraction(x, weight, index, table)

    def multiply_adds(self) -> int:
        """Return multiply-accumulate operations and single multiplications per channel."""
        return sum(len(self.positions[name]) for name in _POSITIONS)


def _components(
    polynomial: Tensor, start: int, weight: int, names: Sequence[tuple[int, ...]]
) -> list[Polynomial]:
    """Split a polynomial (components, monomials) into its nonzero components."""
    components = []
    for m, row in enumerate(polynomial):
        positions = row.nonzero().flatten().tolist()
        values = {names[position]: row[position].item() for position in positions}
        if values:
            components.append(Polynomial(start + m, weight, values))
    return components
