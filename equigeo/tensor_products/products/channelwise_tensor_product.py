"""The product of node features with edge features in message passing, channel by channel."""

from __future__ import annotations

from typing import Any, Literal, final

from equigeo.nn._irreps_argument import irreps_argument
from equigeo.reps.irreps import Layout
from equigeo.tensor_products.paths.all_paths import all_paths
from equigeo.tensor_products.paths.normalization import normalize
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
        first = irreps_argument("irreps_in1", irreps_in1, layout)
        second = irreps_argument("irreps_in2", irreps_in2, layout)
        targets = irreps_argument("irreps_out", irreps_out, layout)
        keep = frozenset(ir for mul, ir in targets.terms if mul > 0)
        made, paths = all_paths(first, second, "uvu", keep)
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
