"""The tensor products of e3nn: along paths of the user's choice, or along all of a kind."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Any, Literal, final

import torch

from equigeo.nn.module import irreps_argument, warn_of_empty
from equigeo.reps import Irreps
from equigeo.reps.irreps import Layout, Term, read_kinds
from equigeo.tensor_products.instructions import (
    Instruction,
    all_paths,
    check_blocks,
    read_operands,
    simplify,
)
from equigeo.tensor_products.normalization import normalize
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
        operands = read_operands(irreps_in1, irreps_in2, irreps_out, layout=layout)
        variances = (in1_var, in2_var, out_var)
        super().__init__(
            operands,
            normalize(instructions, operands, irrep_normalization, path_normalization, variances),
            internal_weights=internal_weights,
            shared_weights=True if shared_weights is None else shared_weights,
        )


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
        operands = read_operands(irreps_in1, irreps_in2, irreps_out, layout=layout)
        first, second, third = operands
        instructions = [
            (n1, n2, n3, "uvw", True)
            for n1, (_, ir1) in enumerate(first.terms)
            for n2, (_, ir2) in enumerate(second.terms)
            for n3, (_, ir3) in enumerate(third.terms)
            if ir3 in ir1 * ir2
        ]
        variances = (in1_var, in2_var, out_var)
        super().__init__(
            operands,
            normalize(instructions, operands, irrep_normalization, path_normalization, variances),
            internal_weights=internal_weights,
            shared_weights=True if shared_weights is None else shared_weights,
        )


@final
class ElementwiseTensorProduct(PathProduct):
    r"""Clebsch-Gordan product of the n-th irrep of one input with the n-th of the other.

    .. math:: z_u = x_u \otimes y_u

    Terms are merged and then split until their multiplicities agree, which raises ``ValueError`` in
    the layout ``ir_mul`` if data would have to move. The output has one term per path, unsorted.
    Without weights; bilinear and equivariant under O(3).

    Parameters
    ----------
    irreps_in1, irreps_in2 : str, Irreps or e3nn.o3.Irreps
        With equally many irreps.
    filter_ir_out : iterable of str or (int, int), optional
        Irreps to keep, such as ``["0e", "1o"]``; all by default.
    irrep_normalization, layout
        See :class:`TensorProduct`.

    Examples
    --------
    >>> product = ElementwiseTensorProduct("5x1o + 5x1e", "10x1e", ["0e", "0o"])
    >>> str(product.irreps_in2), str(product.irreps_out)
    ('5x1e+5x1e', '5x0o+5x0e')
    """

    def __init__(
        self,
        irreps_in1: Any,
        irreps_in2: Any,
        filter_ir_out: Any = None,
        irrep_normalization: str | None = None,
        *,
        layout: Layout = "mul_ir",
    ) -> None:
        first = simplify("irreps_in1", irreps_argument("irreps_in1", irreps_in1, layout))
        second = simplify("irreps_in2", irreps_argument("irreps_in2", irreps_in2, layout))
        keep = read_kinds(filter_ir_out, "filter_ir_out")
        first, second = _align(first, second)
        terms: list[Term] = []
        instructions = []
        for n, ((mul, ir1), (_, ir2)) in enumerate(zip(first.terms, second.terms, strict=True)):
            for ir in ir1 * ir2:
                if keep is None or ir in keep:
                    instructions.append((n, n, len(terms), "uuu", False))
                    terms.append((mul, ir))
        warn_of_empty((first, second), keep or (), len(terms))
        operands = (first, second, Irreps(terms, layout))
        super().__init__(operands, normalize(instructions, operands, irrep_normalization))


@final
class FullTensorProduct(PathProduct):
    r"""Clebsch-Gordan product along every path: each pair of irreps, each degree in their product.

    .. math:: z^{(p)}_{uvk} = f_p \sum_{ij} C^{l_1 l_2 l_3}_{ijk}\, x_{ui}\, y_{vj}

    Every equivariant bilinear map is a linear layer applied to it. Adjacent terms of the inputs are
    merged first; the output has one term of multiplicity ``mul1 * mul2`` per path, sorted by
    degree, odd before even. Equivariant under O(3).

    Parameters
    ----------
    irreps_in1, irreps_in2 : str, Irreps or e3nn.o3.Irreps
    filter_ir_out : iterable of str or (int, int), optional
        Irreps to keep, such as ``["0e", "1o"]``; all by default.
    irrep_normalization, layout
        See :class:`TensorProduct`.
    method : {"dense", "sparse"}, optional
        "sparse", the default, multiplies the nonzero entries of couplings on devices for which
        :func:`equigeo.ops.copywise_product` is compiled; "dense" multiplies all entries, by matrix
        products.

    Examples
    --------
    >>> product = FullTensorProduct("0e + 1o", "0e + 1o")
    >>> str(product.irreps_out), product.multiply_adds()
    ('1x0e+1x0e+1x1o+1x1o+1x1e+1x2e', 27)
    """

    def __init__(
        self,
        irreps_in1: Any,
        irreps_in2: Any,
        filter_ir_out: Any = None,
        irrep_normalization: str | None = None,
        *,
        method: Literal["dense", "sparse"] | None = None,
        layout: Layout = "mul_ir",
    ) -> None:
        if method not in ("dense", "sparse", None):
            raise ValueError(f'method must be "dense" or "sparse", got {method!r}')
        first = simplify("irreps_in1", irreps_argument("irreps_in1", irreps_in1, layout))
        second = simplify("irreps_in2", irreps_argument("irreps_in2", irreps_in2, layout))
        irreps_out, paths = all_paths(
            first, second, "uvuv", read_kinds(filter_ir_out, "filter_ir_out")
        )
        self.method = method  # which paths are made for
        operands = (first, second, irreps_out)
        instructions = [(*path, "uvuv", False) for path in paths]
        super().__init__(operands, normalize(instructions, operands, irrep_normalization))

    def set_paths(self, instructions: Iterable[Instruction]) -> None:
        super().set_paths(instructions)
        if self.method == "dense":
            self.compiled = None

    def multiply_adds(self) -> int:
        if self.method == "dense":
            return super().multiply_adds()
        names = (f"group{n}" for n in range(len(self._groups)))
        entries = (int(self.tables[name, torch.float64].count_nonzero()) for name in names)
        muls = (group.muls for group in self._groups)
        return sum(u * v * count for (u, v), count in zip(muls, entries, strict=True))


def _align(irreps_in1: Irreps, irreps_in2: Irreps) -> tuple[Irreps, Irreps]:
    """Split terms until both inputs have the same multiplicities."""
    ones, others = (
        [ir for mul, ir in irreps.terms for _ in range(mul)] for irreps in (irreps_in1, irreps_in2)
    )
    if len(ones) != len(others):
        raise ValueError(
            f"irreps_in1 and irreps_in2 must have equally many irreps, got {len(ones)} and "
            f"{len(others)} in {irreps_in1} and {irreps_in2}"
        )
    # The n-th irreps of both meet: wherever a term ends on either side, both are cut.
    meetings = groupby(zip(ones, others, strict=True))
    runs = [(pair, len(list(same))) for pair, same in meetings]
    first = Irreps([(mul, ir) for (ir, _), mul in runs], irreps_in1.layout)
    second = Irreps([(mul, ir) for (_, ir), mul in runs], irreps_in2.layout)
    check_blocks("irreps_in1", irreps_in1, first)
    check_blocks("irreps_in2", irreps_in2, second)
    return first, second
