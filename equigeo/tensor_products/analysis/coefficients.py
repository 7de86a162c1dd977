"""Coefficients of couplings in equivariant bilinear maps, measured on random vectors."""

from __future__ import annotations

import copy
from collections.abc import Sequence

import torch
from torch import Tensor

from equigeo._core.cache import kept
from equigeo._core.checks import check_shape
from equigeo.reps import Irreps
from equigeo.reps.irreps import Irrep
from equigeo.reps.wigner import wigner_3j_table
from equigeo.tensor_products.products.base import Product

SAMPLES = 4  # random vectors per irrep; one would do, if it never met a coupling near a zero
RESIDUAL = 1e-12  # of the largest output: bound of rounding in components that are no coupling
ZERO = 1e-11  # of the largest coefficient; rounding leaves a thousandth of it
NOTHING = 1e-13  # of the product of the inputs: an output that is rounding and nothing else
_CHUNK = 2**24  # numbers of output computed at a time


def interactability(
    product: Product, weight: Tensor | None = None
) -> dict[tuple[Irrep, Irrep, Irrep], Tensor]:
    r"""Measure the coefficients of all triples of irreps that a product couples.

    An equivariant bilinear map is fixed by one number per three single irreps,

    .. math:: z_c = \sum_{ab} \kappa_{abc}\, C^{l_a l_b l_c}(x_a, y_b),

    where :math:`C` is ``wigner_3j``, of unit norm. They are measured in float64. If more than 1e-12
    of the output is no coupling, the product is not equivariant and ``ValueError`` is raised.

    Parameters
    ----------
    product : Product
        Copied, neither moved nor cast.
    weight : Tensor, (weight_numel,), optional
        By default ones, so that every path contributes.

    Returns
    -------
    dict
        From ``((l1, p1), (l2, p2), (l3, p3))``, with parities 1 or -1, to coefficients (copies in
        the first input, in the second, in the output), float64. Absent triples are not coupled.

    Examples
    --------
    >>> import equigeo.tensor_products as tp
    >>> gaunt = tp.interactability(tp.GauntTensorProduct(1, 1, 2, basis="integral"))
    >>> sorted((a[0], b[0], c[0]) for a, b, c in gaunt)  # no cross product, (1, 1, 1)
    [(0, 0, 0), (0, 1, 1), (1, 0, 1), (1, 1, 0), (1, 1, 2)]
    """
    if weight is None and product.weight_numel:
        weight = torch.ones(product.weight_numel)
    if weight is not None:
        check_shape(weight, "weight", (product.weight_numel,))
        weight = weight.detach().cpu().double()
    kappa = path_coefficients(in_double(product), weight)
    reps = product.irreps_in1, product.irreps_in2, product.irreps_out
    rows, columns, layers = (_spans([ir for ir, _ in single_irreps(rep)]) for rep in reps)
    # Irreps of one kind are neighbors among single irreps, so that blocks are slices.
    triples = {
        (ir1, ir2, ir3): kappa[a][:, b][:, :, c]
        for ir1, a in rows.items()
        for ir2, b in columns.items()
        for ir3, c in layers.items()
    }
    return {triple: found for triple, found in triples.items() if found.any()}


def _spans(irreps: list[Irrep]) -> dict[Irrep, slice]:
    """Return the range of adjacent copies of each irrep."""
    return {
        ir: slice(irreps.index(ir), irreps.index(ir) + irreps.count(ir))
        for ir in dict.fromkeys(irreps)
    }


def path_coefficients(
    product: Product,  # in float64
    weight: Tensor | None = None,  # (weight_numel,), passed on if given
) -> Tensor:  # (irreps of in1, irreps of in2, irreps of out)
    """Return the coefficients kappa_abc of a product; raise if it is not a sum of couplings."""
    # z_c = sum_ab kappa_abc C^{la lb lc}(x_a, y_b). Equality on random vectors holds everywhere
    # with probability one; rounding is set to zero.
    irreps1 = [ir for ir, _ in single_irreps(product.irreps_in1)]
    irreps2 = [ir for ir, _ in single_irreps(product.irreps_in2)]
    # A product of single irreps is one number per allowed triple (Schur's lemma): random vectors of
    # each pair, zeros elsewhere, yield it by projecting the output on the coupling.
    x, y = embedded_probes(product.irreps_in1, 0), embedded_probes(product.irreps_in2, 1)
    given = () if weight is None else (weight,)
    rows = max(1, _CHUNK // max(1, len(irreps2) * SAMPLES * product.irreps_out.dim))
    parts = [x.new_zeros(0, len(irreps2), len(single_irreps(product.irreps_out)))]
    sizes, residuals = [x.new_zeros(())], [x.new_zeros(())]
    with torch.no_grad():
        for start in range(0, len(irreps1), rows):
            z = product(x[start : start + rows, None], y[None], *given)
            part, rest = project(z, irreps1[start : start + rows], irreps2, product)
            parts.append(part)
            sizes.append(_largest(z))
            residuals.append(rest)
    kappa = torch.cat(parts)
    size, left = float(torch.stack(sizes).amax()), float(torch.stack(residuals).amax())
    if size <= NOTHING * float(_largest(x) * _largest(y)):
        return torch.zeros_like(kappa)
    if not left <= RESIDUAL * size:
        raise ValueError(
            f"{type(product).__name__}({product.extra_repr()}) must be equivariant under "
            f"{product.rep_out.group}, but {left / size:.2g} of its output is no multiple of a "
            "coupling"
        )
    return kappa.where(kappa.abs() > ZERO * _largest(kappa), 0.0)


def project(
    z: Tensor,  # (first irreps, second irreps, SAMPLES, dim), outputs for probes
    irreps1: Sequence[Irrep],
    irreps2: Sequence[Irrep],
    product: Product,  # under SO(3), its parities are names only
) -> tuple[Tensor, Tensor]:  # (first irreps, second irreps, irreps of out), ()
    """Return coefficients of probe outputs and the largest component that couplings miss."""
    kinds1, kinds2 = list(dict.fromkeys(irreps1)), list(dict.fromkeys(irreps2))
    index1 = torch.tensor([kinds1.index(ir) for ir in irreps1], dtype=torch.int64)
    index2 = torch.tensor([kinds2.index(ir) for ir in irreps2], dtype=torch.int64)
    parts, residuals = [z.new_zeros(*z.shape[:2], 0)], [z.new_zeros(())]
    # Under SO(3) only, any parities may couple.
    reflects = product.rep_out.group == Irreps.group
    for ir, positions in _by_kind(product.irreps_out).items():
        table = z.new_zeros(len(kinds1), len(kinds2), SAMPLES, 2 * ir[0] + 1)
        for i, (l1, p1) in enumerate(kinds1):
            for j, (l2, p2) in enumerate(kinds2):
                allowed = not reflects or p1 * p2 == ir[1]
                if allowed and abs(l1 - l2) <= ir[0] <= l1 + l2:
                    table[i, j] = _coupled_probes(l1, l2, ir[0])
        expected = table[index1][:, index2]
        found = z[..., positions]
        square = expected.square().sum((-1, -2)).clamp_min(torch.finfo(z.dtype).tiny)
        part = torch.einsum("absum,absm->abu", found, expected) / square[..., None]
        rest = found - part[:, :, None, :, None] * expected[..., None, :]
        residuals.append(_largest(rest.detach()))
        parts.append(part)
    return torch.cat(parts, dim=-1), torch.stack(residuals).amax()


def single_irreps(irreps: Irreps) -> list[tuple[Irrep, Tensor]]:
    """Return every copy of every irrep with the positions (2 l + 1,) of its components."""
    return [(ir, row) for ir, positions in _by_kind(irreps).items() for row in positions]


def embedded_probes(irreps: Irreps, operand: int) -> Tensor:  # (single irreps, SAMPLES, dim)
    """Return random features for operand 0 or 1, one single irrep at a time."""
    singles = single_irreps(irreps)
    x = torch.zeros(len(singles), SAMPLES, irreps.dim, dtype=torch.float64)
    for row, ((l, _), positions) in zip(x, singles, strict=True):
        row[:, positions] = _probe(l, operand)
    return x


def in_double(product: Product) -> Product:
    """Return a copy of a product in float64 on the CPU, in evaluation mode."""
    return copy.deepcopy(product).cpu().double().eval()


def _largest(x: Tensor) -> Tensor:
    return x.abs().amax() if x.numel() else x.new_zeros(())


def _by_kind(irreps: Irreps) -> dict[Irrep, Tensor]:
    """Return positions (copies, 2 l + 1) of each irrep, in the order of first appearance."""
    found: dict[Irrep, list[Tensor]] = {}
    kinds = [ir for mul, ir in irreps.terms if mul]
    for ir, part in zip(kinds, irreps.summands(), strict=True):
        found.setdefault(ir, []).append(part.positions)
    return {ir: torch.cat(rows) for ir, rows in found.items()}


@kept
def _probe(l: int, operand: int) -> Tensor:
    generator = torch.Generator().manual_seed(2 * l + operand)
    return torch.randn(SAMPLES, 2 * l + 1, dtype=torch.float64, generator=generator)


@kept
def _coupled_probes(l1: int, l2: int, l3: int) -> Tensor:
    """Return the coupled probes of two degrees, (SAMPLES, 2 l3 + 1)."""
    # z_k = sum_ij C_ijk x_i y_j
    left = torch.tensordot(_probe(l1, 0), wigner_3j_table(l1, l2, l3), 1)
    return torch.einsum("sjk,sj->sk", left, _probe(l2, 1))
