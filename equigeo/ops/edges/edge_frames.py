"""Rotations that take edges to the polar axis, without an angle."""

from __future__ import annotations

import torch
from torch import Tensor

from equigeo.ops.edges.wigner_recurrence import wigner_matrices


def edge_frames(
    vectors: Tensor,  # (..., 3)
) -> Tensor:  # (..., 3, 3)
    """Return rotations of each vector onto the y axis; not finite for zero vectors."""
    scaled = vectors / largest_component(vectors)
    x, y, z = (scaled / torch.linalg.vector_norm(scaled, dim=-1, keepdim=True)).unbind(-1)
    # With k = 1 / (1 + |u_y|), the shortest rotation of u onto the y axis; below the equator, onto
    # -y followed by a half turn about x. Rational in u without poles; it jumps on the equator by a
    # roll.
    upper = y >= 0
    k = 1 / (1 + torch.where(upper, y, -y))
    sign = torch.where(upper, 1, -1).to(y.dtype)
    across = -k * x * z
    first = torch.stack([1 - k * x * x, -sign * x, across], dim=-1)
    third = torch.stack([sign * across, -z, sign * (1 - k * z * z)], dim=-1)
    return torch.stack([first, torch.stack([x, y, z], dim=-1), third], dim=-2)


def largest_component(vectors: Tensor) -> Tensor:
    """Return the divisor that keeps squares of very long or short vectors in range, (..., 1)."""
    return vectors.detach().abs().amax(dim=-1, keepdim=True)


def has_direction(
    vectors: Tensor,  # (edges, 3)
) -> Tensor:  # (edges, 1), bool
    """Return a mask of the nonzero edges; zero edges have no frame and send no message."""
    # Non-finite vectors count as nonzero, so that their results are NaN.
    return (vectors.detach() != 0).any(dim=-1, keepdim=True)


def edge_matrices(vectors: Tensor, lmax: int) -> list[Tensor]:
    """Return the Wigner matrices of the edge frames; arbitrary frames for zero edges."""
    pole = vectors.new_tensor([0.0, 1.0, 0.0])
    return wigner_matrices(edge_frames(torch.where(has_direction(vectors), vectors, pole)), lmax)
