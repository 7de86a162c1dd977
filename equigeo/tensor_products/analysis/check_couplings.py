"""What a product must be before its time is worth anything."""

from __future__ import annotations

import torch
from torch import Tensor

from equigeo.reps.wigner_3j import wigner_3j_table
from equigeo.tensor_products.paths.path_coefficients import single_irreps
from equigeo.tensor_products.products.product import Product


def check_couplings(product: Product, kappa: Tensor, x: Tensor, y: Tensor) -> None:
    """Compare a product with a sum of couplings in float64.

    Parameters
    ----------
    product : Product
        In the dtype of ``x``.
    kappa : Tensor, (irreps of in1, irreps of in2, irreps of out), float64
        Coefficients, as :func:`interactability` measures them.
    x, y : Tensor, (samples, dim), floating
        Inputs.

    Raises
    ------
    RuntimeError
        If they differ by more than rounding explains.
    """
    reps = product.irreps_in1, product.irreps_in2, product.irreps_out
    first, second, third = (single_irreps(rep) for rep in reps)
    x64, y64 = x.double().cpu(), y.double().cpu()
    want = x64.new_zeros(len(x), product.irreps_out.dim)
    for a, b, c in kappa.nonzero().tolist():
        ((l1, _), at1), ((l2, _), at2), ((l3, _), at3) = first[a], second[b], third[c]
        left = torch.tensordot(x64[:, at1], wigner_3j_table(l1, l2, l3), 1)
        want[:, at3] += kappa[a, b, c] * torch.einsum("sjk,sj->sk", left, y64[:, at2])
    with torch.no_grad():
        got = product(x, y).double().cpu()
    error = float((got - want).abs().max()) / float(want.abs().max())
    bound = 32 * torch.finfo(x.dtype).eps * max(rep.dim for rep in reps) ** 0.5
    if not error <= bound:
        raise RuntimeError(
            f"{type(product).__name__} must be a sum of couplings to {bound:.2g}, but is off by "
            f"{error:.2g}"
        )
