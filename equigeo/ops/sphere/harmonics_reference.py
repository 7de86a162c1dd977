"""The arithmetic of spherical harmonics that the references of their ops share."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum

import torch
from torch import Tensor


class Row(IntEnum):
    """Rows of a table: three of the recursion over degrees, three of derivatives."""

    UP = 0
    DOWN = 1
    START = 2
    ALONG = 3
    RAISE = 4
    LOWER = 5


def unit_vectors(
    x: Tensor,  # (points, 3)
    normalize: bool,  # if False, x is returned unchanged
) -> tuple[Tensor, Tensor]:  # (points, 3), (points, 1)
    """Return unit vectors and inverse lengths; zero stays zero, with a finite gradient."""
    if not normalize:
        return x, torch.ones_like(x[:, :1])
    # Squares of very short or long vectors leave the range of the type: scale first. The result
    # does not depend on the scale, so neither does its gradient.
    largest = x.detach().abs().amax(-1, keepdim=True)
    largest = torch.where(largest > 0, largest, 1)
    scaled = x / largest
    square = (scaled * scaled).sum(-1, keepdim=True)
    length = torch.where(square > 0, square, 1).sqrt()
    return scaled / length, 1 / (largest * length)


def evaluate(
    x: Tensor,  # (points, 3), any length
    table: Tensor,  # (6, lmax + 1, lmax + 1)
) -> list[Tensor]:
    """Evaluate the spherical harmonics by degree, (points, 2 l + 1) each."""
    x, y, z = x.unbind(-1)
    square = x * x + y * y + z * z
    up, down, start = table[: Row.START + 1, :, :, None].transpose(1, 2).unbind(0)
    # (z + i x)^m: real parts belong to positive orders, imaginary ones to negative orders
    real, imaginary = [torch.ones_like(x), z], [torch.zeros_like(x), x]
    rows = [start[0, :1] + torch.zeros_like(y)]
    # Terms that vanish are left out: zero times infinity is NaN.
    for l in range(1, len(start)):
        re, im = real[-1], imaginary[-1]
        real.append(z * re - x * im)
        imaginary.append(x * re + z * im)
        row = up[l, :l] * (y * rows[-1])
        if l > 1:
            row = torch.cat([row[:-1] - down[l, : l - 1] * (square * rows[-2]), row[-1:]])
        rows.append(torch.cat([row, start[l, l : l + 1].expand_as(row[:1])]))
    values = []
    for l, row in enumerate(rows):
        azimuth = torch.stack([*imaginary[l:0:-1], *real[: l + 1]])
        values.append((torch.cat([row[1:].flip(0), row]) * azimuth).T)
    return values


def differentiate(
    values: Sequence[Tensor],  # (..., points, 2 l + 1) by degree
    table: Tensor,  # (6, lmax + 1, lmax + 1)
) -> list[Tensor]:
    """Return the derivatives by x, y and z, (3, ..., points, 2 l + 1) by degree."""
    # The derivatives of degree l combine harmonics of degree l - 1.
    zero = torch.zeros_like(values[0])
    slopes = [torch.stack([zero, zero, zero])]
    for l in range(1, len(values)):
        matrices = _derivative_matrices(l, table)
        slopes.append(torch.stack([values[l - 1] @ matrix for matrix in matrices]))
    return slopes


def _derivative_matrices(l: int, table: Tensor) -> Tensor:
    """Return the derivatives by x, y and z as matrices from degree ``l - 1`` to ``l``."""
    matrices = table.new_zeros(3, 2 * l - 1, 2 * l + 1)
    by_x, by_y, by_z = (matrix.T for matrix in matrices)  # entries by order and order below
    along, raised, lowered = table[Row.ALONG :, :, l].unbind(0)
    below = l - 1  # column of order zero
    m = torch.arange(1 - l, l, device=table.device)
    by_y[l + m, below + m] = along[m.abs()]
    if l > 1:
        by_z[l, below + 1] = by_x[l, below - 1] = raised[0]
    m = torch.arange(1, max(1, l - 1), device=table.device)
    by_z[l + m, below + m + 1] = by_x[l + m, below - m - 1] = raised[m] / 2
    by_z[l - m, below - m - 1] = raised[m] / 2
    by_x[l - m, below + m + 1] = -raised[m] / 2
    m = torch.arange(1, l + 1, device=table.device)
    by_z[l + m, below + m - 1] = by_x[l - m, below + m - 1] = lowered[m] / 2
    m = m[1:]
    by_z[l - m, below - m + 1] = lowered[m] / 2
    by_x[l + m, below - m + 1] = -lowered[m] / 2
    return matrices


def join_degrees(
    parts: Sequence[Tensor],  # (..., 2 l + 1) by degree
    degrees: Sequence[int],
) -> Tensor:
    """Concatenate the requested degrees."""
    return torch.cat([parts[l] for l in degrees], dim=-1)
