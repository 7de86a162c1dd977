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

    where :math:`Q` follows a recursion over degrees. There are neither angles nor poles, and
    gradients of any order are right everywhere.

    Parameters
    ----------
    irreps_out : int, sequence of int, Irreps, e3nn.o3.Irreps or str
        Degrees, in the order wanted; as irreps, their parities must be those of a power of the
        input, and Irreps keep their layout.
    normalize : bool
        Whether to divide the input by its length. If not, the output of degree l is a homogeneous
        polynomial of degree l.
    normalization : {"integral", "component", "norm"}
        Of the output, on the sphere: the square of each function integrates to 1; squares of one
        degree add up to ``2 l + 1``; they add up to 1.
    irreps_in : Irreps, e3nn.o3.Irreps or str, optional
        ``"1o"``, or ``"1e"`` for a pseudovector; by default what ``irreps_out`` needs, else a
        vector.

    Attributes
    ----------
    irreps_in, irreps_out : Irreps
        Of input and output.

    Raises
    ------
    TypeError
        If a degree is not an integer.
    ValueError
        If ``irreps_in`` is not a vector, parities do not fit it, a degree is negative, none is
        given, or ``normalization`` is unknown.

    Equivariance
    ------------
    Under O(3).

    References
    ----------
    Bigi et al., "Fast evaluation of spherical harmonics with sphericart", 2023.

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
        """Evaluate the spherical harmonics of vectors.

        Parameters
        ----------
        x : Tensor, (..., 3), floating
            Vectors. Where ``normalize``, the zero vector gives what the polynomials do: a constant
            for degree 0, else zero.

        Returns
        -------
        Tensor, (..., irreps_out.dim), dtype of ``x``
            Degrees one after the other, in the layout of ``irreps_out``.

        Raises
        ------
        TypeError
            If ``x`` is not floating.
        ValueError
            If the last axis is not of length 3.
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
    """Evaluate real spherical harmonics of any degree, as :class:`SphericalHarmonics` does.

    Parameters
    ----------
    l : int, sequence of int, Irreps, e3nn.o3.Irreps or str
        Degrees, in the order wanted; as irreps, with the parities of powers of a vector or
        pseudovector. Irreps keep their layout.
    x : Tensor, (..., 3), floating
        Vectors.
    normalize : bool
        Whether to divide them by their length. The zero vector stays zero.
    normalization : {"integral", "component", "norm"}
        Of the output, as there.

    Returns
    -------
    Tensor, (..., sum of 2 l + 1), dtype of ``x``
        Degrees one after the other, orders ascending.

    Raises
    ------
    TypeError
        If ``x`` is not floating or a degree not an integer.
    ValueError
        If ``x`` is not (..., 3), parities are not those of powers of one vector, a degree is
        negative or none is given, or ``normalization`` is unknown.

    Equivariance
    ------------
    Under O(3): from vectors to the degrees with parity ``(-1)^l``.

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
    # A compiler takes the table into its graph and would not see through the cache.
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
