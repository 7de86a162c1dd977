"""Spherical harmonics as a module and as a function of vectors."""

from __future__ import annotations

import math
from collections.abc import Iterable
from numbers import Integral
from typing import Any, final

import torch
from torch import Tensor

from equigeo._core.cache import kept
from equigeo._core.checks import check_tensor, checked_integer
from equigeo._core.tensors import computed_in
from equigeo.nn import Tables
from equigeo.nn.module import IrrepsLayer
from equigeo.ops.geometry.spherical_harmonics import spherical_harmonics_op
from equigeo.reps import Irreps
from equigeo.reps.irreps import Layout
from equigeo.tensor_products.sphere.legendre import Basis, basis_scale, legendre_coefficients

_POLAR, _AXIAL = Irreps("1o"), Irreps("1e")


def read_harmonic_degrees(
    l: int | Iterable[Any] | str,  # degrees, or irreps of degrees
    # 1o or 1e; by default 1e if an odd degree is even
    irreps_in: Iterable[Any] | str | None = None,
) -> tuple[Irreps, list[int]]:
    """Return the vector irrep and one degree per copy, by the rules of e3nn."""
    # A list of int takes no test of an abstract class: those take longer than a small kernel.
    alone = type(l) is not list and isinstance(l, (int, str, Integral))
    terms: list[Any] = [l] if alone else list(l)  # type: ignore[arg-type]
    irreps = Irreps(l) if terms and not isinstance(terms[0], (int, Integral)) else None  # type: ignore[arg-type]
    if irreps_in is None:
        odd = irreps is None or all(p < 0 for _, (l, p) in irreps.terms if l % 2)
        vector = _POLAR if odd else _AXIAL
    else:
        vector = Irreps(irreps_in)
        if vector.terms not in (_POLAR.terms, _AXIAL.terms):
            raise ValueError(f"irreps_in must be a vector, 1o, or a pseudovector, 1e, got {vector}")
    if irreps is None:
        degrees = [n if type(n) is int else checked_integer("degree", n) for n in terms]
    else:
        parity = vector.terms[0][1][1]
        for _, (degree, p) in irreps.terms:
            if p != parity**degree:
                raise ValueError(
                    f"irreps_out must have the parity {parity**degree} at degree {degree}, for "
                    f"irreps_in is {vector}, got {irreps}"
                )
        degrees = [degree for mul, (degree, _) in irreps.terms for _ in range(mul)]
    if not degrees or min(degrees) < 0:
        raise ValueError(f"expected at least one degree and none negative, got {l}")
    return vector, degrees


def harmonics_table(lmax: int, normalization: Basis) -> Tensor:  # (6, lmax + 1, lmax + 1), float64
    """Return the coefficients for the op of spherical harmonics, by order and degree."""
    # By order and then degree, as the kernel walks through them.
    up, down, start = legendre_coefficients(lmax).transpose(1, 2)
    l = torch.arange(lmax + 1, dtype=torch.float64, device="cpu")
    m = l[:, None]
    slope = (2 * l + 1) / (2 * l - 1) * (m <= l)
    # Derivatives are harmonics of one degree less: d/dy keeps the order, d/dz +- i d/dx change it
    # by one. The norms of degrees l and l - 1 enter by the ratio of 2 l + 1 and 2 l - 1.
    along = (slope * (l - m) * (l + m)).clamp(min=0).sqrt()
    raised = -(slope * (l - m) * (l - m - 1)).clamp(min=0).sqrt()
    lowered = (slope * (l + m) * (l + m - 1)).clamp(min=0).sqrt()
    # Real harmonics of order zero have half the square of the others' real and imaginary parts.
    raised[:1] *= math.sqrt(0.5)
    lowered[1:2] *= math.sqrt(2)
    # Recursions reach one and two degrees back, derivatives one: ratios of the scales there.
    scales = [basis_scale("normalization", normalization, max(0, k)) for k in range(-2, lmax + 1)]
    scale = torch.tensor(scales, dtype=torch.float64, device="cpu")
    once, twice = scale[2:] / scale[1:-1], scale[2:] / scale[:-2]
    factors = torch.stack([once, twice, scale[2:], once, once, once])
    return torch.stack([up, down, start, along, raised, lowered]) * factors[:, None]


def evaluate_harmonics(
    x: Tensor,  # (..., 3)
    table: Tensor,  # (6, lmax + 1, lmax + 1), in the compute dtype of x
    degrees: list[int],
    normalize: bool,  # whether to divide vectors by their length
) -> Tensor:  # (..., sum of 2 l + 1)
    """Evaluate harmonics of vectors of any shape, for degrees in any order."""
    if x.ndim != 2:
        values = evaluate_harmonics(x.reshape(-1, 3), table, degrees, normalize)
        return values.view(*x.shape[:-1], values.shape[-1])
    ascending = sorted(set(degrees))
    values = spherical_harmonics_op(x, table, ascending, normalize)
    if ascending == degrees:
        return values
    parts = dict(zip(ascending, values.split([2 * l + 1 for l in ascending], 1), strict=True))
    return torch.cat([parts[l] for l in degrees], 1)


def check_points(x: Tensor) -> None:
    """Raise if ``x`` is not a floating tensor (..., 3)."""
    check_tensor("x", x)
    if not x.is_floating_point():
        raise TypeError(f"x must be floating, got {x.dtype}")
    if x.ndim == 0 or x.shape[-1] != 3:
        raise ValueError(f"x must be (..., 3), got {tuple(x.shape)}")


@final
class SphericalHarmonics(IrrepsLayer):
    r"""Real spherical harmonics as polynomials of (x, y, z), to any degree.

    In the order, with the signs and with the polar axis, y, of e3nn:

    .. math:: Y_l^{\pm m}(x, y, z) = Q_l^m(y, r^2)\,
              \genfrac{}{}{0pt}{}{\mathrm{Re}}{\mathrm{Im}} (z + i x)^m

    where :math:`Q` follows a recursion over degrees (Bigi et al., "Fast evaluation of spherical
    harmonics with sphericart", 2023). Without angles there are no poles, and gradients of any order
    are exact everywhere. Equivariant under O(3).

    Parameters
    ----------
    irreps_out : int, sequence of int, Irreps, e3nn.o3.Irreps or str
        Degrees in any order; as irreps, with the parities of powers of the input. Irreps keep their
        layout.
    normalize : bool
        Whether to divide the input by its length; otherwise degree l is a homogeneous polynomial of
        degree l.
    normalization : {"integral", "component", "norm"}
        On the sphere: the square of each function integrates to 1; squares of one degree add up to
        ``2 l + 1``; they add up to 1.
    irreps_in : Irreps, e3nn.o3.Irreps or str, optional
        ``"1o"``, or ``"1e"`` for a pseudovector; by default derived from ``irreps_out``.

    Examples
    --------
    >>> harmonics = SphericalHarmonics("0e + 1o", normalize=True, normalization="norm")
    >>> harmonics(torch.tensor([[0.0, 3.0, 4.0], [0.0, 0.0, 0.0]]))
    tensor([[1.0000, 0.0000, 0.6000, 0.8000],
            [1.0000, 0.0000, 0.0000, 0.0000]])
    """

    def __init__(
        self,
        irreps_out: int | Iterable[Any] | str,
        normalize: bool,
        normalization: Basis = "integral",
        irreps_in: Iterable[Any] | str | None = None,
    ) -> None:
        super().__init__()
        self.normalize = normalize
        self.normalization = normalization
        self.irreps_in, self.degrees = read_harmonic_degrees(irreps_out, irreps_in)
        self.irreps_out = _of_degrees(self.degrees, self.irreps_in, irreps_out)
        self.tables = Tables(table=harmonics_table(max(self.degrees), normalization))

    def forward(self, x: Tensor) -> Tensor:
        """Evaluate the harmonics of vectors (..., 3), to (..., irreps_out.dim).

        If ``normalize``, the zero vector results in zeros except for degree 0.
        """
        check_points(x)
        table = self.tables["table", computed_in(x.dtype)]
        values = evaluate_harmonics(x, table, self.degrees, self.normalize)
        return _in_layout(values, self.irreps_out)

    def extra_repr(self) -> str:
        return f"{self.irreps_out}, normalize={self.normalize}, {self.normalization}"


def spherical_harmonics(
    l: int | Iterable[Any] | str, x: Tensor, normalize: bool, normalization: Basis = "integral"
) -> Tensor:
    """Evaluate real spherical harmonics of vectors ``x`` (..., 3), to (..., sum of 2 l + 1).

    Arguments: see :class:`SphericalHarmonics`; ``l`` is its ``irreps_out``.

    Examples
    --------
    >>> x = torch.tensor([0.0, 3.0, 4.0])
    >>> spherical_harmonics([0, 1], x, normalize=True, normalization="norm")
    tensor([1.0000, 0.0000, 0.6000, 0.8000])
    >>> spherical_harmonics(50, x, normalize=True).square().sum()  # (2 l + 1) / 4 pi
    tensor(8.0373)
    """
    check_points(x)
    vector, degrees = read_harmonic_degrees(l)
    key = max(degrees), normalization, computed_in(x.dtype), x.device
    # A compiler cannot trace the cache; it stores the table in its graph.
    table = _table(*key) if torch.compiler.is_compiling() else _kept_table(*key)
    values = evaluate_harmonics(x, table, degrees, normalize)
    if type(l) is list or not isinstance(l, Irreps) or l.layout == "mul_ir":
        return values
    return _in_layout(values, _of_degrees(degrees, vector, l))


def _of_degrees(degrees: list[int], vector: Irreps, given: Any) -> Irreps:
    """Return the irreps of harmonics, in the layout of the argument."""
    _, (_, parity) = vector.terms[0]
    layout: Layout = given.layout if isinstance(given, Irreps) else "mul_ir"
    return Irreps([(1, (l, parity**l)) for l in degrees], layout).simplify()


def _in_layout(values: Tensor, irreps: Irreps) -> Tensor:
    """Rearrange concatenated degrees to the layout of the output."""
    if irreps.layout == "mul_ir" or all(mul == 1 for mul, _ in irreps):
        return values
    return irreps.with_layout("mul_ir").to_layout(values, irreps.layout)


def _table(lmax: int, normalization: Basis, dtype: torch.dtype, device: torch.device) -> Tensor:
    return harmonics_table(lmax, normalization).to(device, dtype)


_kept_table = kept(_table)
