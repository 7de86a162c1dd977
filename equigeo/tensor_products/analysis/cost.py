"""Published degrees of freedom of products."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from equigeo.tensor_products.instructions import Irrep
from equigeo.tensor_products.products.base import Product
from equigeo.tensor_products.products.path_product import (
    in_double,
    path_coefficients,
    single_irreps,
)


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
    if weight is not None and weight.shape != (product.weight_numel,):
        raise ValueError(f"weight must be ({product.weight_numel},), got {tuple(weight.shape)}")
    if weight is not None:
        weight = weight.detach().cpu().double()
    kappa = path_coefficients(in_double(product), weight)
    reps = product.irreps_in1, product.irreps_in2, product.irreps_out
    rows, columns, layers = (_spans([ir for ir, _ in single_irreps(rep)]) for rep in reps)
    # Irreps of one kind are neighbours among single irreps, so that blocks are slices.
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


Setting = Literal["siso", "simo", "mimo"]


def published_freedom(
    name: str,  # row of compare; the part before the first space counts
    lmax: int,
    setting: Setting,
) -> int | None:
    """Return the degrees of freedom in "The Price of Freedom", or None if not published."""
    # For Clebsch-Gordan products the paper counts all paths, though only even ones were computed:
    # 2 min(l1, l2) + 1 for each l1 and l2.
    n = lmax + 1
    freedoms = {
        "full": {"siso": 1, "simo": 2 * lmax + 1, "mimo": n * (2 * n * n + 1) // 3},
        "gaunt": {"siso": 1 - lmax % 2, "simo": lmax + 1, "mimo": 4 * lmax + 1},
        "matrix": {"siso": 1, "simo": 2 * lmax + 1, "mimo": 4 * lmax + 1},
        "vector_signal": {"mimo": 6 * lmax + 1},
    }
    kind = name.split()[0].removesuffix("_sparse")
    return freedoms.get(kind, {}).get(setting)
