"""What the function and the module of spherical harmonics share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import index
from typing import Any

import torch
from torch import Tensor

from equigeo.reps import Irreps
from equigeo.tensor_products._legendre import legendre_recursion


def read_degrees(
    l: int | Iterable[Any] | str, irreps_in: Iterable[Any] | str | None = None
) -> tuple[Irreps, list[int]]:
    """Read the degrees wanted, and what kind of vector they are of, by the rules of e3nn.

    Parameters
    ----------
    l : int, sequence of int, Irreps, e3nn.o3.Irreps or str
        Degrees, or irreps of degrees.
    irreps_in : Irreps, e3nn.o3.Irreps, str or None
        A vector or pseudovector; by default the latter where an odd degree is even.

    Returns
    -------
    irreps_in : Irreps
        ``1o`` or ``1e``.
    degrees : list of int
        One entry per copy.

    Raises
    ------
    TypeError
        If a degree is not an integer.
    ValueError
        If there is no degree, one is negative, ``irreps_in`` is no vector, or a parity is wrong.
    """
    terms: list[Any] = [l] if isinstance(l, (int, str)) else list(l)
    irreps = Irreps(l) if terms and not isinstance(terms[0], int) else None  # type: ignore[arg-type]
    if irreps_in is None:
        odd = irreps is None or all(p < 0 for _, (l, p) in irreps.terms if l % 2)
        irreps_in = "1o" if odd else "1e"
    vector = Irreps(irreps_in)
    if vector.terms not in (((1, (1, -1)),), ((1, (1, 1)),)):
        raise ValueError(f"irreps_in must be a vector, 1o, or a pseudovector, 1e, got {vector}")
    if irreps is None:
        degrees = [index(degree) for degree in terms]
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


def evaluate_harmonics(
    x: Tensor, coefficients: Tensor, degrees: Sequence[int], scales: Sequence[float]
) -> Tensor:
    """Evaluate the polynomials.

    Parameters
    ----------
    x : Tensor, (points, 3), floating
        Vectors of any length.
    coefficients : Tensor, (3, lmax + 1, lmax + 1), dtype of ``x``
        Of the recursion, to the largest degree.
    degrees : sequence of int
        Wanted, in this order.
    scales : sequence of float
        What to multiply each by.

    Returns
    -------
    Tensor, (points, sum of 2 l + 1), dtype of ``x``
        Contiguous.
    """
    lmax = max(degrees)
    x, y, z = x.unbind(-1)
    legendre = legendre_recursion(coefficients, y, x * x + y * y + z * z)
    # (z + i x)^m: real parts belong to positive orders, imaginary ones to negative orders
    real, imaginary = [torch.ones_like(x)], [torch.zeros_like(x)]
    for _ in range(lmax):
        re, im = real[-1], imaginary[-1]
        real.append(z * re - x * im)
        imaginary.append(x * re + z * im)
    azimuth = torch.stack([*imaginary[:0:-1], *real])  # orders -lmax ... lmax
    values = []
    for l, scale in zip(degrees, scales, strict=True):
        meridian = torch.cat([legendre[l].flip(0), legendre[l][1:]])
        values.append(scale * meridian * azimuth[lmax - l : lmax + l + 1])
    return torch.cat(values).T.contiguous()


def unit(x: Tensor) -> Tensor:
    """Divide vectors by their length, whatever it is; zero stays zero, with a finite gradient.

    Parameters
    ----------
    x : Tensor, (..., 3), floating
        Vectors.

    Returns
    -------
    Tensor, (..., 3), dtype of ``x``
        Of length one or zero.
    """
    # Squares of very short or long vectors leave the range of the type: scale first. The result
    # does not depend on the scale, so neither does its gradient.
    largest = x.detach().abs().amax(-1, keepdim=True)
    scaled = x / torch.where(largest > 0, largest, 1)
    square = (scaled * scaled).sum(-1, keepdim=True)
    return scaled / torch.where(largest > 0, square, 1).sqrt()


def check_points(x: Tensor) -> None:
    """Refuse what is not vectors.

    Parameters
    ----------
    x : Tensor, (..., 3), floating
        Vectors.

    Raises
    ------
    TypeError
        If ``x`` is not floating.
    ValueError
        If its last axis is not of length 3.
    """
    if not x.is_floating_point():
        raise TypeError(f"x must be floating, got {x.dtype}")
    if x.ndim == 0 or x.shape[-1] != 3:
        raise ValueError(f"x must be (..., 3), got {tuple(x.shape)}")
