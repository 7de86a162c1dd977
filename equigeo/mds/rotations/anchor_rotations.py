"""Frames spanned by points of a cloud, which no spectrum makes ambiguous."""

from __future__ import annotations

import torch
from torch import Tensor

PARALLEL = 1e-3
"""Points whose distance from a line is less than this part of the radius do not span a plane."""


def anchor_rotations(
    y: Tensor,  # (points, dim), one centred cloud, dim at most 3
    group: str,  # "O" or "SO"
    tol: float,  # relative tolerance of equal radii
) -> tuple[Tensor, int]:  # (frames, dim, dim), axes as columns
    """Return frames of the outermost pairs of points, and the number of arbitrary last axes."""
    dim = y.shape[-1]
    radius = y.norm(dim=-1)
    largest = radius.detach().amax() if len(y) else y.new_zeros(())
    identity = torch.eye(dim, dtype=y.dtype, device=y.device)
    if not bool(largest > 0):
        return identity[None], dim
    outer = (radius.detach() >= largest * (1 - tol)).nonzero()[:, 0]
    outer = outer[_first_of_copies(y.detach()[outer], tol * largest)]
    first = y[outer] / radius[outer, None]
    if dim == 1:
        return (first[:, :, None] if group == "O" else identity[None]), 0
    if dim == 2:
        turned = torch.stack([-first[:, 1], first[:, 0]], -1)  # a quarter turn
        return handed_frames([first, turned], group), 0
    # The first point is one of the farthest from the centroid. Of the points not collinear with it,
    # the second is farthest out, then farthest from the line. Copies of a point count once.
    pairs = _pairs(y.detach(), first.detach(), radius.detach(), largest, tol)
    if not len(pairs):
        return along_line(first), 2
    a, other = first[pairs[:, 0]], y[pairs[:, 1]]
    across = other - (other * a).sum(-1, keepdim=True) * a
    b = across / across.norm(dim=-1, keepdim=True)
    return handed_frames([a, b, torch.linalg.cross(a, b)], group), 0


def _pairs(y: Tensor, first: Tensor, radius: Tensor, largest: Tensor, tol: float) -> Tensor:
    """Return indices of the first point among the outermost, and of the second among all."""
    along = first @ y.mT
    across = (y - along[..., None] * first[:, None, :]).norm(dim=-1)
    able = across >= PARALLEL * largest
    # Ties are broken by a second length; pairs that tie in both each span a frame.
    for length in (radius.expand_as(across), across):
        length = torch.where(able, length, -1)
        able = able & (length >= length.amax() - tol * largest)
    seconds = able.any(0).nonzero()[:, 0]
    seconds = seconds[_first_of_copies(y[seconds], tol * largest)]
    pairs = able[:, seconds].nonzero()
    return torch.stack([pairs[:, 0], seconds[pairs[:, 1]]], -1)


def _first_of_copies(points: Tensor, distance: Tensor) -> Tensor:
    """Return which of (points, dim) have no earlier point within a distance."""
    near = torch.cdist(points, points, compute_mode="donot_use_mm_for_euclid_dist") <= distance
    return ~near.tril(-1).any(1)


def handed_frames(
    columns: list[Tensor],  # (frames, dim) per axis of right-handed frames
    group: str,
) -> Tensor:  # (frames or 2 frames, dim, dim), axes as columns
    """Stack axes into right-handed frames, and for O also left-handed ones."""
    right = torch.stack(columns, -1)
    if group == "SO":
        return right
    return torch.cat([right, torch.stack([*columns[:-1], -columns[-1]], -1)])


def along_line(
    first: Tensor,  # (points, 3), directions along one line
) -> Tensor:  # (1 or 2, 3, 3)
    """Return one frame per end of a line that has a point, with arbitrary last two axes."""
    signs = (first * first[:1]).sum(-1).sign().unique()
    least = first[0].detach().abs().argmin()
    # The coordinate axis that is least parallel: its cross product cannot vanish.
    helper = torch.nn.functional.one_hot(least, 3).to(first)
    b = torch.linalg.cross(first[0], helper)
    b = b / b.norm()
    frames = [
        torch.stack([s * first[0], b, s * torch.linalg.cross(first[0], b)], -1) for s in signs
    ]
    return torch.stack(frames)
