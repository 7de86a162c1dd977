"""``e3nn.o3.TensorProduct`` and ``TensorSquare`` on the products of this library."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from typing import Any

from torch import Tensor, nn

from equigeo.interop.accelerated.base import Accelerated, fit, random
from equigeo.interop.accelerated.descriptions import OURS, ProductDescription, rebuild
from equigeo.interop.optional import require_e3nn
from equigeo.interop.terms import same_signs
from equigeo.nn.state import stateless
from equigeo.tensor_products import PathProduct


class AcceleratedPaths(Accelerated):
    """A product by paths with weights from the module or the argument, read in each call."""

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
        product = ProductDescription.read(module, "mul_ir", require_e3nn())
        product = replace(product, internal_weights=False, weight=module.weight.new_empty(0))
        return stateless(rebuild(product, OURS, "TensorProduct", module))

    @abstractmethod
    def forward(self, *args: Any) -> Tensor:
        """Multiply as the original module."""

    def _multiply(self, given: tuple[Tensor, ...], weight: Tensor | None) -> Tensor:
        """Multiply two features, or one with itself."""
        used = self.weight if weight is None and self.internal_weights else weight
        if not self.is_as_read() or not fit(*given, *([used] if self.weight_numel else [])):
            return self.original(*given, weight)
        out: Tensor = self.accelerated(given[0], given[-1], used if self.weight_numel else None)
        return out

    def renew(self) -> None:
        # e3nn saves the signs of couplings.
        if not same_signs(self.accelerated, self, require_e3nn()):
            body: Any = self.body_of(self)
            self.accelerated = body.train(self.training)

    def _draw(self, rows: int, *operands: Any) -> tuple[Any, ...]:
        """Return random features of some irreps, and weights if they are external."""
        like = self.output_mask
        given = [random(rows, irreps.dim, like=like, seed=n) for n, irreps in enumerate(operands)]
        if self.internal_weights or not self.weight_numel:
            return tuple(given)
        shape = (self.weight_numel,) if self.shared_weights else (rows, self.weight_numel)
        return *given, random(*shape, like=like, seed=2)


class AcceleratedProduct(AcceleratedPaths):
    """An ``e3nn.o3.TensorProduct`` on ``tensor_products.TensorProduct``."""

    def forward(self, x: Tensor, y: Tensor, weight: Tensor | None = None) -> Tensor:
        return self._multiply((x, y), weight)

    def example(self, rows: int = 3) -> tuple[Any, ...]:
        return self._draw(rows, self.irreps_in1, self.irreps_in2)


class AcceleratedSquare(AcceleratedPaths):
    """An ``e3nn.o3.TensorSquare``: the product of features with themselves."""

    def forward(self, x: Tensor, weight: Tensor | None = None) -> Tensor:
        return self._multiply((x,), weight)

    def example(self, rows: int = 3) -> tuple[Any, ...]:
        return self._draw(rows, self.irreps_in1)
