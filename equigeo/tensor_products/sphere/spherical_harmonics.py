"""Spherical harmonics as a function of vectors."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any

import torch
from torch import Tensor

from equigeo.tensor_products.sphere.basis import Basis
from equigeo.tensor_products.sphere.harmonics import (
    check_points,
    evaluate_harmonics,
    harmonics_table,
    read_degrees,
    working_dtype,
)


def spherical_harmonics(
    l: int | Iterable[Any] | str, x: Tensor, normalize: bool, normalization: Basis = "integral"
) -> Tensor:
    """Evaluate real spherical harmonics of any degree, as :class:`SphericalHarmonics` does.

    Parameters
    ----------
    l : int, sequence of int, Irreps, e3nn.o3.Irreps or str
        Degrees, in the order wanted; as irreps, with the parities of powers of a vector or
        pseudovector.
    x : Tensor, (..., 3), floating
        Vectors.
    normalize : bool
        Whether to divide them by their length. The zero vector stays zero.
    normalization : {"integral", "component", "norm"}
        Of the output, on the sphere: the square of each function integrates to 1; squares of one
        degree add up to ``2 l + 1``; they add up to 1.

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
    >>> import torch
    >>> x = torch.tensor([0.0, 3.0, 4.0])
    >>> spherical_harmonics([0, 1], x, normalize=True, normalization="norm")
    tensor([1.0000, 0.0000, 0.6000, 0.8000])
    >>> spherical_harmonics(50, x, normalize=True).square().sum()  # (2 l + 1) / 4 pi
    tensor(8.0373)
    """
    check_points(x)
    _, degrees = read_degrees(l)
    key = max(degrees), normalization, working_dtype(x.dtype), x.device
    # A compiler takes the table into its graph and would not see through the cache.
    table = _table(*key) if torch.compiler.is_compiling() else _kept_table(*key)
    return evaluate_harmonics(x, table, degrees, normalize)


def _table(lmax: int, normalization: Basis, dtype: torch.dtype, device: torch.device) -> Tensor:
    return harmonics_table(lmax, normalization).to(device, dtype)


_kept_table = cache(_table)
