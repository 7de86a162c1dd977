"""Associated Legendre functions by recursion, without poles and to any degree."""

from __future__ import annotations

import math
from typing import Literal

import torch
from torch import Tensor

Basis = Literal["component", "integral", "norm"]


def basis_scale(name: str, basis: str, l: int) -> float:
    """Return the ratio of a function of degree l to that of the basis ``"component"``."""
    # Sums of squares over orders: 2 l + 1, (2 l + 1) / 4 pi, and 1.
    scales = {
        "component": 1.0,
        "integral": math.sqrt(1 / (4 * math.pi)),
        "norm": math.sqrt(1 / (2 * l + 1)),
    }
    if basis not in scales:
        raise ValueError(f'{name} must be "component", "integral" or "norm", got {basis!r}')
    return scales[basis]


def legendre_coefficients(lmax: int) -> Tensor:  # (3, lmax + 1, lmax + 1), by degree and order
    """Return the coefficients ``up``, ``down`` and ``start`` of the recursion over degrees."""
    # Q_l^m = up y Q_{l-1}^m - down r^2 Q_{l-2}^m, starting at a constant Q_m^m. Q_l^m times the
    # real or imaginary part of (z + i x)^m has mean square one on the sphere.
    order = torch.arange(lmax + 1, dtype=torch.float64, device="cpu")
    l, m = order[:, None], order
    # Three-term recursion of fully normalized associated Legendre functions, over l at fixed m.
    below = (l * l - m * m).clamp(min=1)
    up = ((4 * l * l - 1) / below).clamp(min=0).sqrt() * (m < l)
    down = (2 * l + 1) / (2 * l - 3) * ((l - 1) ** 2 - m * m) / below
    down = down.clamp(min=0).sqrt() * (m < l - 1)
    # Q_m^m: the product of (2 k + 1) / (2 k) up to m, and 2 for the two real harmonics of m > 0.
    growth = torch.cat([order.new_ones(1), 1 + 1 / (2 * order[1:])])
    start = (growth.cumprod(0) * torch.where(order > 0, 2, 1)).sqrt().diag()
    return torch.stack([up, down, start])


def legendre_recursion(
    coefficients: Tensor,  # (3, lmax + 1, lmax + 1)
    height: Tensor,  # (points,), coordinate y
    square: Tensor,  # (points,), squared length
) -> list[Tensor]:
    """Return the polynomials Q of :func:`legendre_coefficients`, (l + 1, points) by degree."""
    up, down, start = coefficients[..., None].unbind(0)
    rows = [start[0] + torch.zeros_like(height)]
    for l in range(1, len(start)):
        row = up[l] * (height * rows[-1]) + start[l]
        rows.append(row - down[l] * (square * rows[-2]) if l > 1 else row)
    return [row[: l + 1] for l, row in enumerate(rows)]


def meridian_factors(
    lmax: int,
    angle: Tensor,  # (points,), radians from the pole, any value
) -> tuple[Tensor, Tensor, Tensor]:  # ((lmax + 1)^2, points) each
    """Return Theta of the harmonics along a meridian, its derivative, and |m| Theta / sin b."""
    # cos(m a) or sin(|m| a) times Theta_l|m| is a harmonic of mean square one.
    cos, sin = angle.cos(), angle.sin()
    coefficients = legendre_coefficients(lmax).to(angle.device)
    up, down, _ = coefficients[..., None].unbind(0)
    polynomials = legendre_recursion(coefficients, cos, torch.ones_like(cos))
    padded = [torch.nn.functional.pad(row, (0, 0, 0, lmax + 1 - len(row))) for row in polynomials]
    slopes = [torch.zeros_like(padded[0])]
    for l in range(1, lmax + 1):
        slope = up[l] * (padded[l - 1] + cos * slopes[-1])
        slopes.append(slope - down[l] * slopes[-2] if l > 1 else slope)
    order = torch.arange(lmax + 1, device=angle.device)[:, None]
    # Theta = sin^m Q; neither has a pole, nor has their derivative.
    power = sin**order
    lower = order * sin ** (order - 1).clamp(min=0)  # the derivative of sin^m by sin
    factors: tuple[list[Tensor], ...] = ([], [], [])
    for l, (row, slope) in enumerate(zip(padded, slopes, strict=True)):
        m = torch.arange(-l, l + 1, device=angle.device).abs()
        factors[0].append((power * row)[m])
        factors[1].append((lower * cos * row - power * sin * slope)[m])
        factors[2].append((lower * row)[m])
    value, slope, over_sine = (torch.cat(rows) for rows in factors)
    return value, slope, over_sine
