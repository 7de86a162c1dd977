"""Spherical harmonics of vectors, with what is constant computed once."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from torch import Tensor, nn

from equigeo.nn import Tables
from equigeo.reps import Irreps, Representation
from equigeo.tensor_products.sphere.basis import Basis
from equigeo.tensor_products.sphere.harmonics import (
    check_points,
    evaluate_harmonics,
    harmonics_table,
    read_degrees,
    working_dtype,
)


class SphericalHarmonics(nn.Module):
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
        input.
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
    >>> import torch
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
        self.irreps_in, self.degrees = read_degrees(irreps_out, irreps_in)
        _, (_, parity) = self.irreps_in.terms[0]
        self.irreps_out = Irreps([(1, (l, parity**l)) for l in self.degrees]).simplify()
        self.tables = Tables(table=harmonics_table(max(self.degrees), normalization))

    @property
    def rep_in(self) -> Representation:
        """Representation of the input."""
        return self.irreps_in

    @property
    def rep_out(self) -> Representation:
        """Representation of the output."""
        return self.irreps_out

    def forward(self, x: Tensor) -> Tensor:
        """Evaluate.

        Parameters
        ----------
        x : Tensor, (..., 3), floating
            Vectors. Where ``normalize``, the zero vector gives what the polynomials do: a constant
            for degree 0, else zero.

        Returns
        -------
        Tensor, (..., irreps_out.dim), dtype of ``x``
            Degrees one after the other.

        Raises
        ------
        TypeError
            If ``x`` is not floating.
        ValueError
            If the last axis is not of length 3.
        """
        check_points(x)
        table = self.tables["table", working_dtype(x.dtype)]
        return evaluate_harmonics(x, table, self.degrees, self.normalize)

    def extra_repr(self) -> str:
        """Return what ``print(module)`` shows."""
        return f"{self.irreps_out}, normalize={self.normalize}, {self.normalization}"
