"""A product restricted to some of its irreps."""

from __future__ import annotations

from typing import final

import torch
from torch import Tensor

from equigeo.nn.index_tables import IndexTables
from equigeo.reps import Irreps, Representation
from equigeo.reps.irreps import Term
from equigeo.tensor_products.paths.read_irreps import read_operands
from equigeo.tensor_products.products.product import Product


@final
class RestrictedProduct(Product):
    """Restrict a product to some of its terms: pad inputs with zeros and select outputs."""

    def __init__(
        self,
        product: Product,
        irreps_in1: Irreps | str,
        irreps_in2: Irreps | str,
        irreps_out: Irreps | str,
    ) -> None:
        super().__init__(*read_operands(irreps_in1, irreps_in2, irreps_out))
        self.product = product
        sides = ("irreps_in1", "irreps_in2", "irreps_out")
        positions = [
            _positions(name, getattr(self, name), getattr(product, name)) for name in sides
        ]
        self.positions = IndexTables(
            in1=_sources(positions[0], product.irreps_in1),
            in2=_sources(positions[1], product.irreps_in2),
            out=torch.tensor(positions[2], dtype=torch.int64),
        )

    def multiply_adds(self) -> int:
        """Return the count of the whole product."""
        return self.product.multiply_adds()

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        """Pad the inputs, multiply, and select the outputs."""
        self.check_inputs(x, y)
        zero = x.new_zeros(1)
        x = torch.cat([x, zero.expand(*x.shape[:-1], 1)], -1)[..., self.positions["in1"]]
        y = torch.cat([y, zero.expand(*y.shape[:-1], 1)], -1)[..., self.positions["in2"]]
        z: Tensor = self.product(x, y)[..., self.positions["out"]]
        return z

    def _represent(self, irreps: Irreps) -> Representation:
        return irreps.restrict(self.product.rep_out.group)


def _positions(name: str, wanted: Irreps, whole: Irreps) -> list[int]:
    """Return the positions of the selected components on the whole feature axis."""
    found: list[int] = []
    rest: list[tuple[Term, slice]] = list(zip(whole.terms, whole.slices(), strict=True))
    for term in wanted.terms:
        while rest and rest[0][0] != term:
            rest.pop(0)
        if not rest:
            raise ValueError(f"{name} must be terms of {whole}, in that order, got {wanted}")
        position = rest.pop(0)[1]
        found.extend(range(position.start, position.stop))
    return found


def _sources(positions: list[int], whole: Irreps) -> Tensor:
    """Return the source position of each whole component, or the position of an appended zero."""
    sources = torch.full((whole.dim,), len(positions))
    sources[torch.tensor(positions).long()] = torch.arange(len(positions))
    return sources
