"""The product of two features channel by channel."""

from __future__ import annotations

from itertools import accumulate
from typing import Any, final

from equigeo.nn._irreps_argument import irreps_argument
from equigeo.nn.reached import warn_of_empty
from equigeo.reps import Irreps
from equigeo.reps.irreps import Layout, Term
from equigeo.tensor_products.paths.normalization import normalize
from equigeo.tensor_products.paths.read_irreps import (
    check_blocks,
    product_of_irreps,
    read_filter,
    simplify,
)
from equigeo.tensor_products.products.path_product import PathProduct


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
        keep = read_filter(filter_ir_out)
        first, second = _align(first, second)
        terms: list[Term] = []
        instructions = []
        for n, ((mul, ir1), (_, ir2)) in enumerate(zip(first.terms, second.terms, strict=True)):
            for ir in product_of_irreps(ir1, ir2):
                if keep is None or ir in keep:
                    instructions.append((n, n, len(terms), "uuu", False))
                    terms.append((mul, ir))
        warn_of_empty((first, second), keep or (), len(terms))
        operands = (first, second, Irreps(terms, layout))
        super().__init__(operands, normalize(instructions, operands, irrep_normalization))


def _align(irreps_in1: Irreps, irreps_in2: Irreps) -> tuple[Irreps, Irreps]:
    """Split terms until both inputs have the same multiplicities."""
    counts = [sum(mul for mul, _ in irreps.terms) for irreps in (irreps_in1, irreps_in2)]
    if counts[0] != counts[1]:
        raise ValueError(
            f"irreps_in1 and irreps_in2 must have equally many irreps, got {counts[0]} and "
            f"{counts[1]} in {irreps_in1} and {irreps_in2}"
        )
    # The n-th irreps of both meet: wherever a term ends on either side, both are cut.
    ends = sorted({end for irreps in (irreps_in1, irreps_in2) for end in _ends(irreps)})
    first, second = _split_at(irreps_in1, ends), _split_at(irreps_in2, ends)
    check_blocks("irreps_in1", irreps_in1, first)
    check_blocks("irreps_in2", irreps_in2, second)
    return first, second


def _ends(irreps: Irreps) -> list[int]:
    return [*accumulate(mul for mul, _ in irreps.terms)]


def _split_at(irreps: Irreps, ends: list[int]) -> Irreps:
    """Split terms at the given counts of irreps."""
    terms: list[Term] = []
    start = 0
    for (_, ir), stop in zip(irreps.terms, _ends(irreps), strict=True):
        for end in ends:
            if start < end <= stop:
                terms.append((end - start, ir))
                start = end
    return Irreps(terms, irreps.layout)
