"""The product of a feature with itself."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, final

from torch import Tensor

from equigeo._core.tensors import computes_in_float32
from equigeo.nn.module import irreps_argument
from equigeo.reps import Irreps, Representation
from equigeo.reps.irreps import Irrep, Layout, Term, read_kinds
from equigeo.tensor_products.instructions import pairs, simplify
from equigeo.tensor_products.normalization import IRREP_NORMALIZATIONS, check_choice
from equigeo.tensor_products.products.path_product import HeldProduct
from equigeo.tensor_products.products.tensor_product import TensorProduct

Fields = tuple[int, int, int, str, bool, float]  # of an instruction

UNWEIGHTED = ("uvuv", "uvu<v", "uuu")  # different terms; one term, u < v; one term, u = v
WEIGHTED = ("uvw", "u<vw", "uuw")


@final
class TensorSquare(HeldProduct):
    r"""Clebsch-Gordan product of a feature with itself, each pair of irreps once.

    .. math:: z = x \otimes x

    An irrep with itself has even degrees only, with factors that account for squared components.
    The output has one term per path, sorted by degree, odd before even; or the given irreps, fully
    connected with weights. Quadratic and equivariant under O(3). Pairs u < v of channels have no
    compiled op; PyTorch evaluates them.

    Parameters
    ----------
    irreps_in : str, Irreps or e3nn.o3.Irreps
        Adjacent equal irreps are merged.
    irreps_out : str, Irreps or e3nn.o3.Irreps, optional
        Without it there are no weights.
    filter_ir_out : iterable of str or (int, int), optional
        Irreps to keep if ``irreps_out`` is not given.
    irrep_normalization, internal_weights, shared_weights, layout
        See :class:`TensorProduct`.

    Examples
    --------
    >>> square = TensorSquare("1o")
    >>> [round(path.path_weight, 9) for path in square.instructions], str(square.irreps_out)
    ([0.447213595, 1.58113883], '1x0e+1x2e')
    """

    def __init__(
        self,
        irreps_in: Any,
        irreps_out: Any = None,
        filter_ir_out: Any = None,
        irrep_normalization: str | None = None,
        *,
        internal_weights: bool | None = None,
        shared_weights: bool | None = None,
        layout: Layout = "mul_ir",
    ) -> None:
        normalization = irrep_normalization or "component"
        check_choice("irrep_normalization", normalization, IRREP_NORMALIZATIONS)
        first = simplify("irreps_in", irreps_argument("irreps_in", irreps_in, layout))
        if irreps_out is None:
            made, paths = _into_own_terms(
                first, read_kinds(filter_ir_out, "filter_ir_out"), normalization
            )
        elif filter_ir_out is None:
            made = simplify("irreps_out", irreps_argument("irreps_out", irreps_out, layout))
            paths = _into_given_terms(first, made, normalization)
        else:
            raise ValueError("filter_ir_out must be None where irreps_out is given")
        shared = True if shared_weights is None else shared_weights
        product = TensorProduct(
            first,
            first,
            made,
            paths,
            irrep_normalization="none",
            internal_weights=False,
            shared_weights=shared,
            layout=layout,
        )
        super().__init__(product, internal_weights=internal_weights, shared_weights=shared)

    @property
    def rep_in(self) -> Representation:
        """Representation of the input."""
        return self.irreps_in1

    @computes_in_float32
    def forward(self, x: Tensor, weight: Tensor | None = None) -> Tensor:
        """Multiply ``x`` (..., irreps_in1.dim) with itself, weighted as a ``TensorProduct``."""
        return self.product(x, x, self._choose_weight(weight))


def _into_own_terms(
    irreps_in: Irreps, keep: frozenset[Irrep] | None, normalization: str
) -> tuple[Irreps, list[Fields]]:
    """Assign every path its own term, and sort the terms."""
    made = [
        (n1, n2, ir1, ir2, ir3, mode)
        for n1, n2, ir1, ir2 in _pairs_of_terms(irreps_in)
        for ir3 in ir1 * ir2
        if keep is None or ir3 in keep
        for mode in _connections(UNWEIGHTED, n1 == n2, irreps_in.terms[n1][0], ir3)
    ]
    terms: list[Term] = []
    for n1, n2, _, _, ir3, mode in made:
        mul1, mul2 = irreps_in.terms[n1][0], irreps_in.terms[n2][0]
        muls = {"uvuv": mul1 * mul2, "uvu<v": pairs(mul1), "uuu": mul1}
        # One channel per pair of channels that meet.
        terms.append((muls[mode], ir3))
    irreps_out, p, _ = Irreps(terms, irreps_in.layout).sort()
    paths: list[Fields] = []
    for n, (n1, n2, ir1, ir2, ir3, mode) in enumerate(made):
        variance = _variance(normalization, ir1, ir2, ir3, mode == "uuu")
        paths.append((n1, n2, p[n], mode, False, variance))
    return irreps_out, paths


def _into_given_terms(irreps_in: Irreps, irreps_out: Irreps, normalization: str) -> list[Fields]:
    """Connect every pair of terms with every output term in its product."""
    return [
        (n1, n2, n3, mode, True, _variance(normalization, ir1, ir2, ir3, mode == "uuw"))
        for n1, n2, ir1, ir2 in _pairs_of_terms(irreps_in)
        for n3, (_, ir3) in enumerate(irreps_out.terms)
        if ir3 in ir1 * ir2
        for mode in _connections(WEIGHTED, n1 == n2, irreps_in.terms[n1][0], ir3)
    ]


def _pairs_of_terms(irreps: Irreps) -> Iterator[tuple[int, int, Irrep, Irrep]]:
    for n1, (_, ir1) in enumerate(irreps.terms):
        for n2, (_, ir2) in enumerate(irreps.terms[n1:], start=n1):
            yield n1, n2, ir1, ir2


def _connections(modes: tuple[str, str, str], same: bool, mul: int, ir: Irrep) -> list[str]:
    """Return the connections between two terms, or within one term."""
    if not same:
        return [modes[0]]
    # x_u (x) x_v with u < v has all degrees; x_u (x) x_u is symmetric under exchange, under which
    # the coupling (l, l, l3) has the sign (-1)^l3: odd degrees vanish.
    upper = [modes[1]] if mul > 1 else []
    return [*upper, modes[2]] if ir[0] % 2 == 0 else upper


def _variance(normalization: str, ir1: Irrep, ir2: Irrep, ir3: Irrep, squared: bool) -> float:
    """Return the path weight that preserves the variance of components, or the norm of irreps."""
    dim1, dim2, dim3 = (2 * l + 1 for l, _ in (ir1, ir2, ir3))
    if normalization == "none":
        return 1.0
    if not squared:
        # As in other products, see normalize.
        return dim3 if normalization == "component" else dim1 * dim2
    # The square of a normal component has variance 2; a sum of them is a scalar of its own.
    if normalization == "component":
        return dim3 / (dim1 + 2) if dim3 == 1 else dim3 / 2
    return dim3 * dim1 if dim3 == 1 else dim1 * (dim1 + 2) / 2
