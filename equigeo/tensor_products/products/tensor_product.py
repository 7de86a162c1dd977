"""The tensor product along paths of the user's choice, with all that e3nn's has."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, final

from equigeo.nn._irreps_argument import irreps_argument
from equigeo.reps.irreps import Layout
from equigeo.tensor_products.paths.normalization import normalize
from equigeo.tensor_products.products.path_product import PathProduct


@final
class TensorProduct(PathProduct):
    r"""Clebsch-Gordan product along chosen paths, with the weights of ``e3nn.o3.TensorProduct``.

    A path couples one term of each input into a term of the output with a normalization factor f,

    .. math:: (x_u \otimes y_v)_k = f \sum_{ij} C^{l_1 l_2 l_3}_{ijk}\, x_{ui}\, y_{vj},

    and its connection defines how channels and weights combine:

    ========  ==========================================================  =====================
    uvw       :math:`z_w = \sum_{uv} w_{uvw}\, x_u \otimes y_v`           weights mandatory
    uvu       :math:`z_u = \sum_v w_{uv}\, x_u \otimes y_v`
    uvv       :math:`z_v = \sum_u w_{uv}\, x_u \otimes y_v`
    uuw       :math:`z_w = \sum_u w_{uw}\, x_u \otimes y_u`               unweighted: one output
    uuu       :math:`z_u = w_u\, x_u \otimes y_u`
    uvuv      :math:`z_{uv} = w_{uv}\, x_u \otimes y_v`                   v fastest
    uvu<v     :math:`z_{uv} = w_{uv}\, x_u \otimes y_v`, u < v            rows of the triangle
    u<vw      :math:`z_w = \sum_{u<v} w_{(uv)w}\, x_u \otimes y_v`        weights mandatory
    ========  ==========================================================  =====================

    Paths into one output term are summed; a term that no path reaches is zero. Bilinear and
    equivariant under O(3) for any weights (Geiger, Smidt, "e3nn: Euclidean Neural Networks", 2022).

    Parameters
    ----------
    irreps_in1, irreps_in2, irreps_out : str, Irreps or e3nn.o3.Irreps
    instructions : iterable of tuple or Instruction
        ``(i_in1, i_in2, i_out, connection, has_weight[, path_weight])``. ``path_weight`` multiplies
        the variance of a path: 4 doubles its output.
    in1_var, in2_var, out_var : sequence of float, optional
        Variance of each term; 1 by default.
    irrep_normalization : {"component", "norm", "none"}, optional
        Whether to preserve the variance of components (default), the norm of irreps, or neither.
    path_normalization : {"element", "path", "none"}, optional
        Whether paths into one output share its variance in proportion to their numbers of products
        (default), equally, or are not normalized.
    internal_weights : bool, optional
        Whether the module owns its weights; by default if they are shared and exist.
    shared_weights : bool, optional
        Whether all samples have the same weights; True by default.
    layout : {"mul_ir", "ir_mul"}
        Of inputs and output. Weights do not depend on it.

    Attributes
    ----------
    weight : Parameter or Tensor, (weight_numel,)
        Drawn from N(0, 1): one row-major block per weighted instruction. Empty without internal
        weights.
    instructions : tuple of Instruction
        With the factor of each path in place of its ``path_weight``, as in e3nn.
    output_mask : Tensor, (irreps_out.dim,)
        1 where a path reaches the output, else 0.

    Examples
    --------
    >>> import torch
    >>> cross = TensorProduct("1o", "1o", "1e", [(0, 0, 0, "uuu", False)])
    >>> x, y = torch.eye(3)[:2]
    >>> (cross(x, y) * 2**0.5).round(decimals=4)
    tensor([0., 0., 1.])
    """

    def __init__(  # noqa: PLR0913 - the signature of e3nn
        self,
        irreps_in1: Any,
        irreps_in2: Any,
        irreps_out: Any,
        instructions: Iterable[Any],
        in1_var: Sequence[float] | None = None,
        in2_var: Sequence[float] | None = None,
        out_var: Sequence[float] | None = None,
        irrep_normalization: str | None = None,
        path_normalization: str | None = None,
        internal_weights: bool | None = None,
        shared_weights: bool | None = None,
        *,
        layout: Layout = "mul_ir",
    ) -> None:
        operands = (
            irreps_argument("irreps_in1", irreps_in1, layout),
            irreps_argument("irreps_in2", irreps_in2, layout),
            irreps_argument("irreps_out", irreps_out, layout),
        )
        variances = (in1_var, in2_var, out_var)
        super().__init__(
            operands,
            normalize(instructions, operands, irrep_normalization, path_normalization, variances),
            internal_weights=internal_weights,
            shared_weights=True if shared_weights is None else shared_weights,
        )
