"""The matrix product of spherical signals."""

from __future__ import annotations

import math
from typing import Literal, final

import torch
from torch import Tensor

from equigeo._core.checks import checked_integer
from equigeo._core.tensors import HALF, computes_in_float32, in_float32
from equigeo.groups import SO
from equigeo.nn import Tables
from equigeo.reps import Irreps, Representation
from equigeo.reps.wigner import wigner_3j_table
from equigeo.tensor_products.products.base import Product
from equigeo.tensor_products.signals.couplings import wigner_6j
from equigeo.tensor_products.signals.signal_product import read_degrees


@final
class MatrixTensorProduct(Product):
    r"""Product of signals as matrices on the space of one degree ``t``.

    Every degree up to ``2 t`` is a part of the square matrices of size ``2 t + 1``. Both inputs are
    embedded, the matrices multiplied, and the degrees of the product extracted:

    .. math::
        X_{ab} = \sum_{l i} C^{t t l}_{a b i} x^l_i, \qquad
        z^l_k = \sum_{a c} C^{t t l}_{a c k} (X Y)_{a c}, \\
        z^{l_3} = \sum_{l_1 l_2} (-1)^{l_3}
        \begin{Bmatrix} l_1 & l_2 & l_3 \\ t & t & t \end{Bmatrix} C^{l_1 l_2 l_3}(x^{l_1}, y^{l_2})

    Even paths come from the anticommutator of the matrices, odd paths, such as the cross product,
    from the commutator (Unke and Maennel, "E3x", 2024; Xie et al., "The Price of Freedom", 2025).

    Parameters
    ----------
    lmax1, lmax2, lmax_out : int
        Largest degrees, included; ``lmax_out <= lmax1 + lmax2``.
    t : int, optional
        At least half of each largest degree, by default the smallest such. It determines the
        accidental zeros of the 6j symbol: none for ``t <= 2``, the permutations of (3, 5, 5) for
        ``t = 3``.
    parity : {None, "both"}
        None: operands are ``0e+1o+2e+...``, and the product is equivariant under SO(3) only.
        "both": operands are ``0e+1e+2e+...`` followed by ``0o+1o+2o+...``, equivariant under O(3).
    normalization : {"none", "component"}
        Of the coupling tensors: unit norm, or that times the root of ``2 l + 1``, so that signals
        and matrices have equal norms.

    Examples
    --------
    >>> product = MatrixTensorProduct(1, 1, 2)
    >>> str(product.irreps_out), str(product.rep_out.group), product.t
    ('1x0e+1x1o+1x2e', 'SO(3)', 1)
    """

    def __init__(
        self,
        lmax1: int,
        lmax2: int,
        lmax_out: int,
        t: int | None = None,
        *,
        parity: Literal["both"] | None = None,
        normalization: Literal["none", "component"] = "none",
    ) -> None:
        lmax1, lmax2, lmax_out = read_degrees(lmax1, lmax2, lmax_out)
        if parity not in (None, "both"):
            raise ValueError(f'parity must be None or "both", got {parity!r}')
        if normalization not in ("none", "component"):
            raise ValueError(f'normalization must be "none" or "component", got {normalization!r}')
        super().__init__(*(_family(lmax, parity) for lmax in (lmax1, lmax2, lmax_out)))
        self.t = _choose_t(max(lmax1, lmax2, lmax_out), t)
        self.parity = parity
        self.normalization = normalization
        self.tables = Tables(
            embed1=_embedding(lmax1, self.t, normalization),
            embed2=_embedding(lmax2, self.t, normalization),
            project=_embedding(lmax_out, self.t, normalization).flatten(1).T,
        )

    @computes_in_float32
    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        self.check_inputs(x, y)
        if x.dtype in HALF:
            return in_float32(self.forward, [x, y])
        names = ("embed1", "embed2", "project")
        tables = [self.tables[name, x.dtype] for name in names]
        if self.parity is None:
            return _matrix_product(x, y, *tables)
        z = _matrix_product(_sum_and_difference(x), _sum_and_difference(y), *tables)
        return _sum_and_difference(z.flatten(-2)).flatten(-2) / 2

    def coefficient(self, l1: int, l2: int, l3: int) -> float:
        """Return the coefficient of the coupling tensor of unit norm, zero without a path."""
        if self.normalization == "none":
            scale = 1.0
        else:
            scale = math.sqrt((2 * l1 + 1) * (2 * l2 + 1) * (2 * l3 + 1))
        # Recoupling of two products of matrices: a 6j symbol with three spins t.
        return (-1) ** l3 * scale * wigner_6j(l1, l2, l3, self.t, self.t, self.t)

    def multiply_adds(self) -> int:
        # To matrices, their product by rows and columns, and back.
        size = 2 * self.t + 1
        dims = (self.irreps_in1.dim, self.irreps_in2.dim, self.irreps_out.dim)
        return sum(dims) * size**2 + (1 if self.parity is None else 2) * size**3

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, t={self.t}, group={self.rep_out.group}"

    def _represent(self, irreps: Irreps) -> Representation:
        # Of one parity each, signals of all degrees are mixed: only rotations commute with that.
        return irreps.restrict(SO(3)) if self.parity is None else irreps


def _family(lmax: int, parity: Literal["both"] | None) -> Irreps:
    if parity is None:
        return Irreps.signal(lmax)
    return Irreps([(1, (l, p)) for p in (1, -1) for l in range(lmax + 1)])


def _choose_t(largest: int, t: int | None) -> int:
    if t is None:
        return (largest + 1) // 2
    t = checked_integer("t", t)
    if 2 * t < largest:
        raise ValueError(f"t must be at least half of the largest degree {largest}, got {t}")
    return t


def _embedding(lmax: int, t: int, normalization: str) -> Tensor:
    """Return the matrices ((lmax + 1)^2, 2 t + 1, 2 t + 1) of the coefficients of a signal."""
    # Matrices of spin t are the sum of degrees 0 to 2 t: coupling tensors (t, t, l) are a basis.
    scale = [1.0 if normalization == "none" else math.sqrt(2 * l + 1) for l in range(lmax + 1)]
    return torch.cat([scale[l] * wigner_3j_table(t, t, l).movedim(2, 0) for l in range(lmax + 1)])


def _sum_and_difference(x: Tensor) -> Tensor:
    """Diagonalize the product of parities, (..., 2 n) to (..., 2, n); applied twice it is 2."""
    # With s = even + odd and d = even - odd, four products become s(z) = s(x) s(y) and d(z) = d(x)
    # d(y). If an input has one parity, both have equal magnitude and the forbidden output is zero.
    # The group algebra of Z2 in its characters.
    even, odd = x.unflatten(-1, (2, x.shape[-1] // 2)).unbind(-2)
    return torch.stack([even + odd, even - odd], dim=-2)


def _matrix_product(
    x: Tensor, y: Tensor, embed1: Tensor, embed2: Tensor, project: Tensor
) -> Tensor:
    """Embed, multiply, project; matrices are (..., 2 t + 1, 2 t + 1)."""
    matrix1 = (x @ embed1.flatten(1)).unflatten(-1, embed1.shape[1:])
    matrix2 = (y @ embed2.flatten(1)).unflatten(-1, embed2.shape[1:])
    return (matrix1 @ matrix2).flatten(-2) @ project
