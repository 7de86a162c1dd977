"""Frames of clouds that spread equally along two axes, by angles in the plane of both."""

from __future__ import annotations

import math

import torch
from torch import Tensor


def harmonic_angles(
    y: Tensor,  # (points, dim), one centred cloud in principal axes
    weight: Tensor | None,  # (points,)
    first: int,  # first axis of the plane; the second is the next one
    most: int,  # largest m
    # tolerance relative to the sum of magnitudes, and coordinate errors (dim,)
    bounds: tuple[float, Tensor],
) -> Tensor | None:  # (m,)
    """Return angles of the directions that the points distinguish in a plane, or None."""
    tol, errors = bounds[0], bounds[1].tolist()
    in_plane = max(errors[first : first + 2])
    z = torch.complex(y[:, first], y[:, first + 1]) / y.detach().abs().amax()
    power = torch.ones_like(z) if weight is None else weight.to(z)
    # What lies across the plane counts with even powers: its own sign is not known.
    factors = [(torch.ones_like(y[:, 0]), 0.0), (z.detach().abs().square(), 2 * in_plane)]
    if y.shape[1] > 2:
        across = _across(first)
        factors.append((y.detach()[:, across].square(), 2 * errors[across]))
    # With z = y_k + i y_{k+1}, the sum of q z^m rotates by m times the angle of a rotation of the
    # cloud. The smallest m with a nonzero sum, for an invariant factor q, leaves m equivalent
    # directions.
    for m in range(1, most + 1):
        power = power * z
        for n, (factor, error) in enumerate(factors):
            if (m, n) == (2, 0):  # equal spreads are why there is a plane: what is left is rounding
                continue
            total, size = (factor * power).sum(), (factor * power).detach().abs().sum()
            if bool(total.detach().abs() > max(tol, m * in_plane + error) * size):
                turns = torch.arange(m, device=y.device) * (2 * math.pi / m)
                return total.angle() / m + turns.to(y)
    return None


def plane_rotations(
    angles: Tensor,  # (angles,), between the first axes of plane and frame
    first: int,  # first axis of the plane; the second is the next one
    flips: list[float],  # signs of the axis across the plane; empty in 2D
    group: str,  # "O" or "SO"
) -> Tensor:  # (frames, dim, dim), axes as columns
    """Return rotations of principal axes within a plane, for every angle and allowed sign."""
    dim, across = (3 if flips else 2), _across(first)
    found = []
    for sense in (1.0, -1.0):
        for flip in flips or [1.0]:
            if group == "SO" and sense * flip < 0:
                continue
            turn = angles.new_zeros(len(angles), dim, dim)
            turn[:, first, first] = angles.cos()
            turn[:, first + 1, first] = angles.sin()
            turn[:, first, first + 1] = -sense * angles.sin()
            turn[:, first + 1, first + 1] = sense * angles.cos()
            if dim == 3:
                turn[:, across, across] = flip
            found.append(turn)
    return torch.cat(found)


# Odd in the coordinate across the plane and even in the distance from its axis, by degree.
_ODD_MOMENTS = ((3, 0), (1, 2), (5, 0), (3, 2), (1, 4))


def signs_across(
    y: Tensor,  # arguments as in harmonic_angles and plane_rotations
    weight: Tensor | None,
    first: int,
    group: str,
    bounds: tuple[float, Tensor],
) -> list[float]:
    """Return the signs of the axis across a plane with a positive odd moment, or both if none."""
    if y.shape[1] == 2:
        return []
    y = y.detach()
    across = y[:, _across(first)]
    # A flat cloud has both signs for right-handed frames, else 1.
    if not bool(across.any()):
        return [1.0, -1.0] if group == "SO" else [1.0]
    size = y.abs().amax()
    height, radius = across / size, y[:, first : first + 2].norm(dim=1) / size
    tol, errors = bounds[0], bounds[1].tolist()
    in_plane, above = max(errors[first : first + 2]), errors[_across(first)]
    for odd, even in _ODD_MOMENTS:
        terms = height**odd * radius**even
        terms = terms if weight is None else weight * terms
        total = terms.sum()
        bound = max(tol, odd * above + even * in_plane)
        if bool(total.abs() > bound * terms.abs().sum()):
            return [float(total.sign())]
    return [1.0, -1.0]


def _across(first: int) -> int:
    """Return the axis of space across a plane."""
    return ({0, 1, 2} - {first, first + 1}).pop()
