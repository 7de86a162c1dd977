"""The product of vector functions on the sphere."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple, final

import torch
from torch import Tensor, nn

from equigeo._core.cache import kept
from equigeo._core.tensors import HALF, computes_in_float32, in_float32, plain_tensors
from equigeo.nn import Tables
from equigeo.reps import Irreps
from equigeo.reps.wigner import wigner_3j_table
from equigeo.tensor_products.products.base import Product
from equigeo.tensor_products.signals.couplings import gaunt_coupling, wigner_9j
from equigeo.tensor_products.signals.methods import GridMethod, analysis, resolve_grid
from equigeo.tensor_products.signals.signal_product import read_degrees
from equigeo.tensor_products.sphere.legendre import Basis, basis_scale
from equigeo.tensor_products.sphere.sphere_grid import SphereGrid


class Harmonic(NamedTuple):
    """One irrep among the functions on the sphere."""

    j: int  # degree of the irrep
    l: int  # degree of the component functions
    spin: int  # 0 for a scalar function (j = l), 1 for a vector function


@final
class VectorHarmonics(nn.Module):
    """Orthogonal change of basis between irreps and components of vector functions."""

    # V_jlm = sqrt(2 j + 1) sum_ia C^{l 1 j}_iam Y_li e_a, one l at a time: Varshalovich et al.,
    # "Quantum Theory of Angular Momentum", 1988, 7.3.
    def __init__(
        self,
        lmax: int,  # largest degree of the components
        scalars: bool,  # whether a scalar function comes first
        scale: Callable[[int], float],  # factor of the irreps of a degree j
    ) -> None:
        super().__init__()
        self.lmax, self.scalars = lmax, scalars
        # Components of degree l and a unit vector, degree 1, couple to j = l - 1, l, l + 1.
        vectors = sorted((j, l) for l in range(lmax + 1) for j in _degrees(l))
        self.harmonics = [Harmonic(l, l, 0) for l in range(lmax + 1) if scalars]
        self.harmonics += [Harmonic(j, l, 1) for j, l in vectors]
        self._sizes = [2 * harmonic.j + 1 for harmonic in self.harmonics]
        scalar = [scale(l) for l in range(lmax + 1) for _ in range(2 * l + 1)]
        with plain_tensors():
            tables = {f"degree{l}": _cartesian(l, scale) for l in range(lmax + 1)}
            tables["scalar"] = torch.tensor(scalar, dtype=torch.float64)
        self.tables = Tables(**tables)

    def multiply_adds(self) -> int:
        """Return the count of one dense matrix per ``l``, per sample and direction."""
        return sum((3 * (2 * l + 1)) ** 2 for l in range(self.lmax + 1))

    def components(self, x: Tensor) -> Tensor:  # (..., dim) to (3 or 4, ..., (lmax + 1)^2)
        """Convert irreps to the scalar function, if any, and the components x, y and z."""
        parts = dict(zip(self.harmonics, x.split(self._sizes, dim=-1), strict=True))
        vector = []
        for l in range(self.lmax + 1):
            # All j with components of this l: an orthogonal matrix of size 3 (2 l + 1).
            part = torch.cat([parts[Harmonic(j, l, 1)] for j in _degrees(l)], dim=-1)
            whole = part @ self.tables[f"degree{l}", x.dtype]
            vector.append(whole.unflatten(-1, (3, 2 * l + 1)).movedim(-2, 0))
        components = torch.cat(vector, dim=-1)
        if not self.scalars:
            return components
        scalar = x[..., : (self.lmax + 1) ** 2] * self.tables["scalar", x.dtype]
        return torch.cat([scalar[None], components])

    def irreps(self, components: Tensor) -> Tensor:
        """Apply the transpose of :meth:`components`."""
        dtype, parts = components.dtype, {}
        degrees = components[-3:].split([2 * l + 1 for l in range(self.lmax + 1)], dim=-1)
        for l, degree in enumerate(degrees):
            whole = degree.movedim(0, -2).flatten(-2) @ self.tables[f"degree{l}", dtype].mT
            sizes = [2 * j + 1 for j in _degrees(l)]
            for j, part in zip(_degrees(l), whole.split(sizes, dim=-1), strict=True):
                parts[Harmonic(j, l, 1)] = part
        vector = [parts[harmonic] for harmonic in self.harmonics if harmonic.spin == 1]
        scalar = [components[0] * self.tables["scalar", dtype]] if self.scalars else []
        return torch.cat([*scalar, *vector], dim=-1)


def _degrees(l: int) -> range:
    """Return the degrees of the irreps of vectors with components of one degree."""
    return range(abs(l - 1), l + 2)


def _cartesian(l: int, scale: Callable[[int], float]) -> Tensor:
    """Return the matrix from irreps, ``j`` ascending, to components; orthogonal up to the scale."""
    blocks = [
        # Of unit norm are rows of C times sqrt(2 j + 1), as C has norm 1 over all orders m.
        scale(j) * math.sqrt(2 * j + 1) * wigner_3j_table(l, 1, j).permute(2, 1, 0)
        for j in _degrees(l)
    ]
    return torch.cat(blocks).flatten(1)


class BilinearAlgorithm(NamedTuple):
    """A bilinear map ``z = out @ ((first @ x) * (second @ y))``."""

    first: Tensor  # (products, components)
    second: Tensor  # (products, components)
    out: Tensor  # (components, products)


@kept
def cross_product() -> BilinearAlgorithm:
    """Return the cross product with five multiplications, the minimum."""
    # A decomposition of the determinant: Derksen, "On the nuclear norm and the singular value
    # decomposition of tensors", 2016.
    first = [[0, 1, 1], [1, 1, 0], [0, 1, 0], [0, -1, 1], [1, -1, 0]]
    second = [[1, -1, 0], [0, 1, -1], [-1, 0, 1], [1, 1, 0], [0, 1, 1]]
    twice_out = [[1, 1, 0], [0, 1, 1], [2, 0, 2], [-1, 1, 0], [0, -1, 1]]
    return _algorithm(first, second, [[value / 2 for value in row] for row in twice_out])


@kept
def quaternion_product() -> BilinearAlgorithm:
    """Return the product of quaternions, scalar first, with eight multiplications, the minimum."""
    # Four for the product of the group Z_2 x Z_2, which differs by signs, and four to correct them:
    # Howell and Lafon, "The complexity of the quaternion product", 1975.
    hadamard = [[1, 1, 1, 1], [1, 1, -1, -1], [1, -1, 1, -1], [1, -1, -1, 1]]
    unit = torch.eye(4).tolist()
    first = [*hadamard, unit[0], unit[3], unit[1], unit[2]]
    second = [*hadamard, unit[0], unit[2], unit[3], unit[1]]
    signs = (-1, 1, 1, 1)  # of the product of the group
    group = [[value * sign / 4 for value, sign in zip(row, signs, strict=True)] for row in hadamard]
    correction = [[-2 * s * value for value in row] for s, row in zip(signs, unit, strict=True)]
    return _algorithm(first, second, group + correction)


def _algorithm(*rows: Sequence[Sequence[float]]) -> BilinearAlgorithm:
    first, second, out = (torch.tensor(side, dtype=torch.float64) for side in rows)
    return BilinearAlgorithm(first, second, out.T.contiguous())


# Pointwise product of spins s1 and s2 to s3, in units of the coupling tensor of unit norm.
_SPIN_COUPLING = {
    (0, 0, 0): 1.0,
    (0, 1, 1): math.sqrt(3),
    (1, 0, 1): math.sqrt(3),
    (1, 1, 0): -math.sqrt(3),
    (1, 1, 1): math.sqrt(6),
}


@final
class VectorSignalTensorProduct(Product):
    r"""Pointwise product of functions from the sphere to vectors or quaternions.

    A vector function is a sum of harmonics with components of degree l and irreps of degree
    :math:`j = l - 1, l, l + 1`,

    .. math:: V_{j l m}(r) = \sqrt{2 j + 1} \sum_{i a} C^{l 1 j}_{i a m} Y_{l i}(r)\, e_a

    Two of them are multiplied by the cross product at every point, which has odd paths but no
    scalar from two scalars. Therefore a scalar function f accompanies each vector function F, and
    both are multiplied as quaternions (Xie et al., "The Price of Freedom", 2025),

    .. math:: (f + F)(g + G) = f g - F \cdot G + f G + g F + F \times G

    On the grid, cross products are five Gaunt products and quaternions eight. Equivariant under
    O(3).

    Parameters
    ----------
    lmax1, lmax2, lmax_out : int
        Largest degrees of the component functions, included: irreps of vector functions reach
        ``lmax + 1``. ``lmax_out <= lmax1 + lmax2``, higher degrees are cut off.
    basis : {"component", "integral", "norm"}
        Of all expansions: harmonics :math:`V_{j l}` with sum of squares ``2 j + 1`` at every point,
        of integral one, or with sum of squares one at every point.
    scalars : bool
        Whether scalar functions are included; otherwise the product is the cross product.
    parity1, parity2 : {1, -1}
        Of the values: 1 for pseudovectors and true scalars, which are closed under the product, -1
        for true vectors and pseudoscalars. The output has their product.
    grid : SphereGrid or (int, int), optional
        See :class:`GauntTensorProduct`.

    Attributes
    ----------
    harmonics : tuple of three lists of (j, l, spin)
        Of the terms of ``irreps_in1``, ``irreps_in2`` and ``irreps_out``; spin is 0 for scalar and
        1 for vector functions. Scalar functions come first, ``j`` ascending, then vector functions,
        ``j`` and then ``l`` ascending: ``0e+1o+1e+2e`` for vectors with components up to degree 1.

    Examples
    --------
    >>> product = VectorSignalTensorProduct(0, 0, 0, parity1=-1, parity2=-1, scalars=False)
    >>> str(product.irreps_in1), str(product.irreps_out)  # constant vectors
    ('1x1o', '1x1e')
    >>> product(torch.tensor([1.0, 0, 0]), torch.tensor([0, 1.0, 0])).abs().round(decimals=4)
    tensor([0., 0., 1.])
    """

    def __init__(
        self,
        lmax1: int,
        lmax2: int,
        lmax_out: int,
        basis: Basis = "component",
        *,
        scalars: bool = True,
        parity1: int = 1,
        parity2: int = 1,
        grid: SphereGrid | tuple[int, int] | None = None,
    ) -> None:
        degrees = read_degrees(lmax1, lmax2, lmax_out)
        if not {parity1, parity2} <= {1, -1}:
            raise ValueError(f"parity1 and parity2 must be 1 or -1, got {parity1} and {parity2}")
        scale = partial(basis_scale, "basis", basis)
        sides = [
            VectorHarmonics(degrees[0], scalars, scale),
            VectorHarmonics(degrees[1], scalars, scale),
            # The output uses the transposed change of basis, so that its scale is the inverse.
            VectorHarmonics(degrees[2], scalars, lambda j: 1 / scale(j)),
        ]
        parities = parity1, parity2, parity1 * parity2
        pairs = zip(sides, parities, strict=True)
        super().__init__(*(_irreps(side.harmonics, parity) for side, parity in pairs))
        self.lmax1, self.lmax2, self.lmax_out = degrees
        self.basis: Basis = basis
        self.scalars = scalars
        self.harmonics = tuple(side.harmonics for side in sides)
        self.harmonics1, self.harmonics2, self.harmonics_out = sides
        found = resolve_grid(grid, sum(degrees))
        self.body = GridMethod(
            found.harmonics(degrees[0]),
            found.harmonics(degrees[1]),
            analysis(found, degrees[2], "component"),
        )
        # Few scalar products on the grid instead of 6 for cross products or 16 for quaternions.
        forms = quaternion_product() if scalars else cross_product()
        self.tables = Tables(**forms._asdict())

    @computes_in_float32
    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        batch = self.check_inputs(x, y)
        if x.dtype in HALF:
            return in_float32(self.forward, [x, y])
        first = self._forms("first", self.harmonics1.components(x), batch)
        second = self._forms("second", self.harmonics2.components(y), batch)
        products: Tensor = self.body(first, second)
        out = self.tables["out", x.dtype]
        products = products.view(out.shape[1], *batch, products.shape[-1])
        return self.harmonics_out.irreps(torch.tensordot(out, products, dims=1))

    def _forms(self, name: str, components: Tensor, batch: torch.Size) -> Tensor:
        """Return the factors of all scalar products, (products * samples, (lmax + 1)^2)."""
        forms = torch.tensordot(self.tables[name, components.dtype], components, dims=1)
        missing = (1,) * (len(batch) + 2 - forms.ndim)
        forms = forms.reshape(len(forms), *missing, *forms.shape[1:])
        return forms.expand(-1, *batch, -1).reshape(-1, forms.shape[-1])

    def coefficient(self, term1: int, term2: int, term_out: int) -> float:
        r"""Return the coefficient of ``wigner_3j`` in the path of three terms, zero without a path.

        .. math:: \kappa_{l_1 l_2 l_3}\, t_{s_1 s_2 s_3} \sqrt{(2 j_1 + 1)(2 j_2 + 1)(2 j_3 + 1)}
            \begin{Bmatrix}
                l_1 & l_2 & l_3 \\ s_1 & s_2 & s_3 \\ j_1 & j_2 & j_3
            \end{Bmatrix}

        with the strength :math:`\kappa` of :class:`GauntTensorProduct`, spins s, and
        :math:`t = \sqrt 6` for the cross product.
        """
        terms = [side[k] for side, k in zip(self.harmonics, (term1, term2, term_out), strict=True)]
        (j1, l1, s1), (j2, l2, s2), (j3, l3, s3) = terms
        # Recoupling (l1 s1) j1, (l2 s2) j2 to (l1 l2) l3, (s1 s2) s3: a 9j symbol.
        spin_coupling = _SPIN_COUPLING.get((s1, s2, s3), 0.0)
        # Harmonics V_jl have 2 j + 1 in the sum of their squares.
        root = math.sqrt((2 * j1 + 1) * (2 * j2 + 1) * (2 * j3 + 1))
        symbol = wigner_9j((l1, l2, l3), (s1, s2, s3), (j1, j2, j3))
        scale1, scale2, scale3 = (basis_scale("basis", self.basis, j) for j in (j1, j2, j3))
        strength = gaunt_coupling(l1, l2, l3) * scale1 * scale2 / scale3
        return spin_coupling * root * symbol * strength

    def multiply_adds(self) -> int:
        products, components = self.tables["first", torch.float64].shape
        count = products * self.body.multiply_adds()
        for side in (self.harmonics1, self.harmonics2, self.harmonics_out):
            count += side.multiply_adds() + products * components * (side.lmax + 1) ** 2
        return count


def _irreps(harmonics: Sequence[Harmonic], parity: int) -> Irreps:
    return Irreps([(1, (j, parity * (-1) ** l)) for j, l, _ in harmonics])
