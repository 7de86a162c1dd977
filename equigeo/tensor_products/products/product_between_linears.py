"""A product with linear layers around it."""

from __future__ import annotations

from typing import final

from torch import Tensor

from equigeo.nn import Linear
from equigeo.nn.reached import allow_unreached, check_reached
from equigeo.reps import Irreps
from equigeo.tensor_products.paths.read_irreps import read_operands
from equigeo.tensor_products.products.product import Product


@final
class ProductBetweenLinears(Product):
    """Wrap a product between linear layers that map the irreps of a model."""

    def __init__(
        self,
        product: Product,  # without external weights
        irreps_in1: Irreps | str,
        irreps_in2: Irreps | str,
        irreps_out: Irreps | str,
    ) -> None:
        super().__init__(*read_operands(irreps_in1, irreps_in2, irreps_out))
        self.product = product
        self.linear1 = _bridge(self.irreps_in1, product.irreps_in1)
        self.linear2 = _bridge(self.irreps_in2, product.irreps_in2)
        check_result_reached(self, product.irreps_out)
        with allow_unreached():  # the check above has warned about the irreps of the user
            self.linear_out = Linear(product.irreps_out, self.irreps_out)

    def multiply_adds(self) -> int:
        """Return the sum over the product and the linear layers."""
        linears = (self.linear1, self.linear2, self.linear_out)
        around = sum(linear_multiply_adds(linear) for linear in linears if linear is not None)
        return around + self.product.multiply_adds()

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        """Map the inputs to the irreps of the product, multiply, and map the result."""
        self.check_inputs(x, y)
        x = x if self.linear1 is None else self.linear1(x)
        y = y if self.linear2 is None else self.linear2(y)
        out: Tensor = self.linear_out(self.product(x, y))
        return out


def check_result_reached(
    product: Product,
    made: Irreps,  # irreps that the last layer receives
) -> None:
    """Raise if the last linear layer gets none of its irreps; warn if some terms are zero."""
    kinds = {ir for mul, ir in made.terms if mul}
    reached = [n for n, (_, ir) in enumerate(product.irreps_out.terms) if ir in kinds]
    inputs = product.irreps_in1, product.irreps_in2
    check_reached(type(product).__name__, inputs, product.irreps_out, reached, 3)


def linear_multiply_adds(linear: Linear) -> int:
    """Return multiply-accumulate operations per sample of a linear layer without biases."""
    terms = linear.irreps_out.terms
    return sum(
        ins.path_shape[0] * ins.path_shape[1] * (2 * terms[ins.i_out][1][0] + 1)
        for ins in linear.instructions
    )


def _bridge(given: Irreps, taken: Irreps) -> Linear | None:
    # Neighbouring terms of one irrep hold the same data as one merged term in mul_ir.
    same = given.simplify() == taken.simplify()
    with allow_unreached():  # irreps of the product that the input lacks are zero
        return None if same else Linear(given, taken)
