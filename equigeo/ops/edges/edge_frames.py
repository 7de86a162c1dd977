"""Rotations that take edges to the polar axis, without an angle."""

from __future__ import annotations

import torch
from torch import Tensor

from equigeo.ops.edges.wigner_recurrence import wigner_matrices


def edge_frames(vectors: Tensor) -> Tensor:
    r"""Rotate each vector onto the y axis.

    With :math:`u = r / |r|` and :math:`k = 1 / (1 + |u_y|)`, the shortest rotation of u onto the y
    axis, and below the equator that onto its opposite followed by a half turn about x: rational
    functions of u, without a pole. The frame jumps on the equator by a roll about the axis, which
    what does not depend on the roll never sees.

    Parameters
    ----------
    vectors : Tensor, (..., 3), floating
        Edges; of a zero vector there is no frame, and its numbers are not finite.

    Returns
    -------
    Tensor, (..., 3, 3)
        Rotations R with ``R @ vectors / |vectors|`` the unit vector of y.

    Equivariance
    ------------
    ``edge_frames(r @ g.T)`` is ``edge_frames(r) @ g.T`` up to a roll about y.

    Examples
    --------
    >>> edge_frames(torch.tensor([0.0, 2.0, 0.0])) + 0.0
    tensor([[1., 0., 0.],
            [0., 1., 0.],
            [0., 0., 1.]])
    """
    scaled = vectors / largest_component(vectors)
    x, y, z = (scaled / torch.linalg.vector_norm(scaled, dim=-1, keepdim=True)).unbind(-1)
    upper = y >= 0
    k = 1 / (1 + torch.where(upper, y, -y))
    sign = torch.where(upper, 1, -1).to(y.dtype)
    across = -k * x * z
    first = torch.stack([1 - k * x * x, -sign * x, across], dim=-1)
    third = torch.stack([sign * across, -z, sign * (1 - k * z * z)], dim=-1)
    return torch.stack([first, torch.stack([x, y, z], dim=-1), third], dim=-2)


def largest_component(vectors: Tensor) -> Tensor:
    """What to divide vectors by first, (..., 1): of very long or short ones squares are lost."""
    return vectors.detach().abs().amax(dim=-1, keepdim=True)


def has_direction(vectors: Tensor) -> Tensor:
    """Tell which edges have a length, (edges, 1); the others have no frame and send nothing.

    One that is not finite counts as having one, so that what comes of it is NaN.
    """
    return (vectors.detach() != 0).any(dim=-1, keepdim=True)


def edge_matrices(vectors: Tensor, lmax: int) -> list[Tensor]:
    """Matrices of all degrees of the frames; of edges without a direction those of some frame."""
    pole = vectors.new_tensor([0.0, 1.0, 0.0])
    return wigner_matrices(edge_frames(torch.where(has_direction(vectors), vectors, pole)), lmax)
