"""Frames of clouds that spread equally along two axes, by angles in the plane of both."""

from __future__ import annotations

import math

import torch
from torch import Tensor


def harmonic_angles(
    y: Tensor, weight: Tensor | None, first: int, most: int, bounds: tuple[float, Tensor]
) -> Tensor | None:
    r"""Directions in a plane that the points in it distinguish, all with an equal claim.

    With the position :math:`z = y_k + i\,y_{k+1}` in the plane, the sum :math:`\sum q\,z^m` turns
    by m times the angle of a turn of the cloud. The least m for which it does not vanish, with a
    factor q that no turn changes, leaves m directions: as many as turns that the sum does not
    notice.

    Parameters
    ----------
    y : Tensor, (points, dim)
        One centred cloud in principal axes.
    weight : Tensor, (points,), optional
        Of points.
    first : int
        The first axis of the plane, k; the second follows it.
    most : int
        The greatest m to try.
    bounds : tuple of float and Tensor, (dim,)
        A sum vanishes where it is less than this part of the sum of magnitudes, or than what the
        relative errors of coordinates along each axis may have made of nothing.

    Returns
    -------
    Tensor, (m,), or None
        Angles of the directions; None if all sums vanish.
    """
    tol, errors = bounds[0], bounds[1].tolist()
    in_plane = max(errors[first : first + 2])
    z = torch.complex(y[:, first], y[:, first + 1]) / y.detach().abs().amax()
    power = torch.ones_like(z) if weight is None else weight.to(z)
    # What lies across the plane counts with even powers: its own sign is not known.
    factors = [(torch.ones_like(y[:, 0]), 0.0), (z.detach().abs().square(), 2 * in_plane)]
    if y.shape[1] > 2:
        across = _across(first)
        factors.append((y.detach()[:, across].square(), 2 * errors[across]))
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


def plane_rotations(angles: Tensor, first: int, flips: list[float], group: str) -> Tensor:
    """Turn principal axes within a plane.

    Parameters
    ----------
    angles : Tensor, (angles,)
        From the first axis of the plane to the first axis of a frame.
    first : int
        The first axis of the plane; the second follows it.
    flips : list of float
        Signs that the axis across the plane takes; none of a cloud that is in the plane alone.
    group : {"O", "SO"}
        Whether frames may be left-handed.

    Returns
    -------
    Tensor, (frames, dim, dim)
        Axes as columns: of every angle with both senses of the plane and all signs across it,
        those that the group has.
    """
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
    y: Tensor, weight: Tensor | None, first: int, group: str, bounds: tuple[float, Tensor]
) -> list[float]:
    """Find the signs that the axis across a plane may take.

    Parameters
    ----------
    y, weight, first, group, bounds
        As of :func:`harmonic_angles` and :func:`plane_rotations`.

    Returns
    -------
    list of float
        The one that makes an odd moment positive; both if all vanish. A flat cloud has both where
        frames must be right-handed, and 1 else; in two dimensions there is none.
    """
    if y.shape[1] == 2:
        return []
    y = y.detach()
    across = y[:, _across(first)]
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
    """The axis of space across a plane."""
    return ({0, 1, 2} - {first, first + 1}).pop()
