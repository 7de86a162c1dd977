"""Channelwise products, and products between linear layers."""

from __future__ import annotations

from typing import Any, Literal, final

from torch import Tensor

from equigeo.nn import Linear
from equigeo.nn.module import allow_unreached, check_reached
from equigeo.reps import Irreps
from equigeo.reps.irreps import Layout
from equigeo.tensor_products.instructions import all_paths, kinds, read_operands
from equigeo.tensor_products.normalization import normalize
from equigeo.tensor_products.products.base import Product
from equigeo.tensor_products.products.path_product import PathProduct


@final
class ChannelwiseTensorProduct(PathProduct):
    r"""Clebsch-Gordan product that keeps the channels of the first input, weighted per path.

    .. math:: z^{(p)}_u = f_p \sum_v w^{(p)}_{uv}\, x_u \otimes y_v

    The product inside NequIP (Batzner et al., 2022) and MACE (Batatia et al., 2022): x holds
    features of the senders, y spherical harmonics of the edges, and the weights are functions of
    the lengths, one row per edge. The output has one term per path, sorted by degree, odd before
    even. Bilinear and equivariant under O(3) for invariant weights.

    Parameters
    ----------
    irreps_in1, irreps_in2 : str, Irreps or e3nn.o3.Irreps
    irreps_out : str, Irreps or e3nn.o3.Irreps
        Irreps to compute; their order and multiplicities are ignored. The attribute of this name
        lists the resulting terms.
    irrep_normalization, path_normalization, layout
        See :class:`TensorProduct`.
    weight_order : {"output", "instruction"}
        Order of the blocks of weights: by output terms, as in MACE and cuEquivariance, or by input
        terms and then degrees, as in NequIP.
    shared_weights : bool
        Whether the module owns one row of weights for all samples; otherwise ``forward`` takes
        them.

    Examples
    --------
    >>> product = ChannelwiseTensorProduct("4x0e + 4x1o", "0e + 1o + 2e", "0e + 1o + 2e")
    >>> str(product.irreps_out), product.weight_numel
    ('4x0e+4x0e+4x1o+4x1o+4x1o+4x2e+4x2e', 28)
    """

    def __init__(
        self,
        irreps_in1: Any,
        irreps_in2: Any,
        irreps_out: Any,
        irrep_normalization: str | None = None,
        path_normalization: str | None = None,
        *,
        weight_order: Literal["output", "instruction"] = "output",
        shared_weights: bool = False,
        layout: Layout = "mul_ir",
    ) -> None:
        if weight_order not in ("output", "instruction"):
            raise ValueError(
                f'weight_order must be "output" or "instruction", got {weight_order!r}'
            )
        first, second, targets = read_operands(irreps_in1, irreps_in2, irreps_out, layout=layout)
        made, paths = all_paths(first, second, "uvu", frozenset(kinds(targets)))
        if weight_order == "output":
            paths.sort(key=lambda path: path[2])
        operands = (first, second, made)
        instructions = normalize(
            [(*path, "uvu", True) for path in paths],
            operands,
            irrep_normalization,
            path_normalization,
        )
        super().__init__(operands, instructions, shared_weights=shared_weights)
        self.weight_order = weight_order


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
        linears = (self.linear1, self.linear2, self.linear_out)
        around = sum(linear_multiply_adds(linear) for linear in linears if linear is not None)
        return around + self.product.multiply_adds()

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        self.check_inputs(x, y)
        x = x if self.linear1 is None else self.linear1(x)
        y = y if self.linear2 is None else self.linear2(y)
        return self.linear_out(self.product(x, y))


def check_result_reached(
    product: Product,
    made: Irreps,  # irreps that the last layer receives
) -> None:
    """Raise if the last linear layer gets none of its irreps; warn if some terms are zero."""
    held = kinds(made)
    reached = [n for n, (_, ir) in enumerate(product.irreps_out.terms) if ir in held]
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
    # Neighboring terms of one irrep hold the same data as one merged term in mul_ir.
    same = given.simplify() == taken.simplify()
    with allow_unreached():  # irreps of the product that the input lacks are zero
        return None if same else Linear(given, taken)
