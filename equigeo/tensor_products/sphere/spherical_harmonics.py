"""Spherical harmonics as a module and as a function of vectors."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, final

import torch
from torch import Tensor

from equigeo._kept import kept
from equigeo.nn import Tables
from equigeo.nn.irreps_layer import IrrepsLayer
from equigeo.ops.runtime.storage import computed_in
from equigeo.reps import Irreps
from equigeo.reps.irreps import Layout
from equigeo.tensor_products.sphere.basis import Basis
from equigeo.tensor_products.sphere.harmonics import (
    check_points,
    evaluate_harmonics,
    harmonics_table,
    read_harmonic_degrees,
)


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
        """Return the options for ``print(module)``."""
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
