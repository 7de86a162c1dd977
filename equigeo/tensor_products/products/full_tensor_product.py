"""All paths between two features, none of them weighted."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal, final

import torch

from equigeo.nn.module import irreps_argument
from equigeo.reps.irreps import Layout, read_kinds
from equigeo.tensor_products.instructions import Instruction, all_paths, simplify
from equigeo.tensor_products.normalization import normalize
from equigeo.tensor_products.products.path_product import PathProduct


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
