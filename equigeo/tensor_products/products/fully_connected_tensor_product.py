"""Every path from two features to given irreps, mixing all channels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, final

from equigeo.nn._irreps_argument import irreps_argument
from equigeo.reps.irreps import Layout
from equigeo.tensor_products.paths.normalization import normalize
from equigeo.tensor_products.paths.read_irreps import product_of_irreps
from equigeo.tensor_products.products.path_product import PathProduct


@final
class FullyConnectedTensorProduct(PathProduct):
    r"""Clebsch-Gordan product with a weight per path and triple of channels, as in e3nn.

    .. math:: z_w = \sum_p f_p \sum_{uv} w^{(p)}_{uvw}\, x_u \otimes y_v

    Bilinear and equivariant under O(3) for any weights. Arguments: see :class:`TensorProduct`.

    Examples
    --------
    >>> FullyConnectedTensorProduct("2x0e + 3x1o", "4x0e + 5x1o", "6x0e + 7x1o + 2x1e").weight_numel
    322
    """

    def __init__(  # noqa: PLR0913 - the signature of e3nn
        self,
        irreps_in1: Any,
        irreps_in2: Any,
        irreps_out: Any,
        irrep_normalization: str | None = None,
        path_normalization: str | None = None,
        *,
        in1_var: Sequence[float] | None = None,
        in2_var: Sequence[float] | None = None,
        out_var: Sequence[float] | None = None,
        internal_weights: bool | None = None,
        shared_weights: bool | None = None,
        layout: Layout = "mul_ir",
    ) -> None:
        first = irreps_argument("irreps_in1", irreps_in1, layout)
        second = irreps_argument("irreps_in2", irreps_in2, layout)
        third = irreps_argument("irreps_out", irreps_out, layout)
        instructions = [
            (n1, n2, n3, "uvw", True)
            for n1, (_, ir1) in enumerate(first.terms)
            for n2, (_, ir2) in enumerate(second.terms)
            for n3, (_, ir3) in enumerate(third.terms)
            if ir3 in product_of_irreps(ir1, ir2)
        ]
        operands = (first, second, third)
        variances = (in1_var, in2_var, out_var)
        super().__init__(
            operands,
            normalize(instructions, operands, irrep_normalization, path_normalization, variances),
            internal_weights=internal_weights,
            shared_weights=True if shared_weights is None else shared_weights,
        )
