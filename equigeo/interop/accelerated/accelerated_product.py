"""``e3nn.o3.TensorProduct`` on the products of this library."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from torch import Tensor, nn

from equigeo.interop._require import require_e3nn
from equigeo.interop.accelerated.accelerated import Accelerated
from equigeo.interop.accelerated.arguments import fit, random
from equigeo.interop.descriptions.coupling_signs import same_signs
from equigeo.interop.descriptions.describe import OURS
from equigeo.interop.descriptions.product_description import ProductDescription
from equigeo.nn.state import stateless
from equigeo.tensor_products import PathProduct


class _OfE3nn(Accelerated):
    """Features and weights of ``e3nn.o3.TensorProduct``, given or read from it in each call."""

    runs_on = "equigeo.tensor_products.TensorProduct"
    live = ("internal_weights",)

    internal_weights: bool
    shared_weights: bool
    weight_numel: int
    weight: Tensor
    output_mask: Tensor
    irreps_in1: Any
    irreps_in2: Any
    accelerated: PathProduct

    @classmethod
    def body_of(cls, module: Any) -> nn.Module:
        """Make the product with external weights; see :meth:`Accelerated.body_of`."""
        product = ProductDescription.read(module, "mul_ir", require_e3nn())
        product = replace(product, internal_weights=False, weight=module.weight.new_empty(0))
        body = product.build(OURS, "TensorProduct")
        product.copy_into(body, module)
        return stateless(body)

    def multiply(self, x: Tensor, y: Tensor, weight: Tensor | None) -> Tensor | None:
        """Multiply features, or return nothing where the original has to."""
        used = self.weight if weight is None and self.internal_weights else weight
        if not self.is_as_read() or not fit(x, y, *([used] if self.weight_numel else [])):
            return None
        product: Tensor = self.accelerated(x, y, used if self.weight_numel else None)
        return product

    def renew(self) -> None:
        """Take over the signs of couplings, which e3nn saves."""
        if not same_signs(self.accelerated, self, require_e3nn()):
            body: Any = self.body_of(self)
            self.accelerated = body.train(self.training)

    def example(self, rows: int = 3) -> tuple[Any, ...]:
        """Make features, and weights where they are external."""
        operands = (self.irreps_in1, self.irreps_in2)
        x, y = (
            random(rows, irreps.dim, like=self.output_mask, seed=n)
            for n, irreps in enumerate(operands)
        )
        if self.internal_weights or not self.weight_numel:
            return x, y
        shape = (self.weight_numel,) if self.shared_weights else (rows, self.weight_numel)
        return x, y, random(*shape, like=self.output_mask, seed=2)


class AcceleratedProduct(_OfE3nn):
    """An ``e3nn.o3.TensorProduct`` that computes by ``tensor_products.TensorProduct``."""

    def forward(self, x: Tensor, y: Tensor, weight: Tensor | None = None) -> Tensor:
        """Multiply features as ``e3nn.o3.TensorProduct`` does."""
        product = self.multiply(x, y, weight)
        return self.original(x, y, weight) if product is None else product


class AcceleratedSquare(_OfE3nn):
    """An ``e3nn.o3.TensorSquare``: the product of features with themselves."""

    def forward(self, x: Tensor, weight: Tensor | None = None) -> Tensor:
        """Multiply features by themselves as ``e3nn.o3.TensorSquare`` does."""
        product = self.multiply(x, x, weight)
        return self.original(x, weight) if product is None else product

    def example(self, rows: int = 3) -> tuple[Any, ...]:
        """Make features, and weights where they are external."""
        x, _, *weights = super().example(rows)
        return x, *weights
