"""Frames of point clouds: centroid and axes of the moments."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from equigeo._core.checks import TensorLike, as_tensor
from equigeo._core.tensors import computes_in_float32
from equigeo.groups import SO, Affine, GLPlus, LinearGroup, Similarity, spd_sqrt
from equigeo.points.clouds import check_finite, hint

# Covariances with mean eigenvalue 1 and a smaller determinant are treated as flat: thickness of
# about 1e-6 of the size, ten times the thickness of a plane that is rounded to float32.
_THIN = 1e-12
_PADDING = 1e-6  # variance added to flat clouds, in mean variances: a thousandth of their size


class PointFrame(nn.Module):
    """Transform a cloud to its own frame, :math:`y_j = F^{-1}(x_j - c)`.

    The cloud :math:`A x + b` has the centroid :math:`A c + b` and the linear part :math:`A F D`,
    where D is diagonal with entries 1 and -1 and determinant 1, since axes have no signs. The
    samples :math:`F o` with the four elements o of ``finite_rotations("dihedral")`` are the same
    set for all signs; with the 24 of ``"octahedral"`` they do not depend on the order of the axes
    either.

    * SO(3): columns of F are the principal axes, by decreasing variance.
    * Similarity(3): the same, times the root mean square of the coordinates.
    * GLPlus(3): :math:`F = S^{1/2} V`, S the covariance, V the axes of the fourth moments
      :math:`E[|z|^2 z z^T]` of the whitened points :math:`z = S^{-1/2}(x - c)`.

    The set of the four frames is exactly equivariant to translations and to elements of the group
    of positive determinant; mirror images are mirrored in their frames. Frames are discontinuous,
    and their gradients infinite, where two eigenvalues are equal: of the covariance for SO(3) and
    Similarity(3), of the fourth moments for GLPlus(3) (also Gaussian clouds). For GLPlus(3), flat
    clouds get a thickness of 1e-3 of their size and are equivariant to similarities only. The scale
    of coinciding points is 1. Reference: Cardoso, "Source separation using higher order moments",
    ICASSP 1989, for the fourth moments.

    Parameters
    ----------
    group : SO(3), Similarity(3) or GLPlus(3)
        Group that the frame follows.

    Examples
    --------
    >>> import torch
    >>> from equigeo.groups import Similarity
    >>> bar = torch.tensor([[[0.0, 0, 0], [0, 4, 0], [1, 2, 0], [-1, 2, 0]]])
    >>> PointFrame(Similarity(3))(bar)[0, :, 0].abs()  # along the longest axis
    tensor([2.1909, 2.1909, 0.0000, 0.0000])
    """

    def __init__(self, group: LinearGroup) -> None:
        super().__init__()
        if group not in (SO(3), Similarity(3), GLPlus(3)):
            raise ValueError(f"group must be SO(3), Similarity(3) or GLPlus(3), got {group}")
        self.group = Affine(group)

    def extra_repr(self) -> str:
        return f"{self.group.linear_group}"

    def elements(self, points: TensorLike) -> Tensor:
        """Return the frame ``(B, 4, 4)`` of each cloud ``(B, P, 3)``: axes and centroid as columns.

        Homogeneous matrices of positive determinant, computed in float64.
        """
        x = _given(points)
        linear, centroid = self._parts(x)
        return self.group.element(linear, centroid).to(x.dtype)

    @computes_in_float32
    def forward(self, points: TensorLike) -> Tensor:
        """Transform each cloud ``(B, P, 3)`` to its frame."""
        x = _given(points)
        linear, centroid = self._parts(x)
        moved = (x.double() - centroid[:, None]).mT
        return torch.linalg.solve(linear, moved).mT.to(x.dtype)

    def _parts(self, points: Tensor) -> tuple[Tensor, Tensor]:
        x = points.double()
        centroid = x.mean(1)
        x = x - centroid[:, None]
        covariance = x.mT @ x / x.shape[1]
        variance = covariance.diagonal(dim1=-2, dim2=-1).mean(-1)[:, None, None]
        variance = torch.where(variance > 0, variance, torch.ones_like(variance))
        group = self.group.linear_group
        if group == GLPlus(3):
            return _fourth_moment_axes(x, covariance, variance), centroid
        axes = _proper_axes(covariance)
        return (axes if group == SO(3) else axes * variance.sqrt()), centroid


def _given(points: TensorLike) -> Tensor:
    x = as_tensor(points, "points")
    shape = tuple(x.shape)
    if len(shape) != 3 or shape[1] == 0 or shape[2] != 3:
        raise ValueError(
            f"points must be (batch, points, 3), got {shape}{hint(shape, 'points', 3, False)}"
        )
    if not x.is_floating_point():
        raise ValueError(f"points must be floating, got {x.dtype}")
    check_finite(x, "points")
    return x


def _fourth_moment_axes(x: Tensor, covariance: Tensor, variance: Tensor) -> Tensor:
    identity = torch.eye(3, dtype=x.dtype, device=x.device)
    thin = torch.linalg.det(covariance / variance) < _THIN
    padded = covariance + _PADDING * variance * identity
    root = spd_sqrt(torch.where(thin[:, None, None], padded, covariance))
    # Whitened points have covariance 1: only higher moments determine their rotation.
    z = torch.linalg.solve(root, x.mT).mT
    weighted = z * z.square().sum(-1, keepdim=True)
    return root @ _proper_axes(weighted.mT @ z / x.shape[1])


def _proper_axes(symmetric: Tensor) -> Tensor:
    """Return eigenvectors (B, 3, 3) by descending eigenvalue, right-handed."""
    axes = torch.linalg.eigh(symmetric).eigenvectors.flip(-1)
    sign = torch.linalg.det(axes.detach()).sign()[:, None]
    return torch.cat([axes[..., :2], axes[..., 2:] * sign[..., None]], dim=-1)
