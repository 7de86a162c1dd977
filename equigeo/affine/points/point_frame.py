"""Frames that point clouds carry: their centroid and axes of their moments."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from equigeo.graphs.inputs import TensorLike, as_tensor
from equigeo.groups import SO, Affine, GLPlus, LinearGroup, Similarity, spd_sqrt
from equigeo.ops.runtime.autocast import computes_in_float32
from equigeo.points.cloud_checks import check_finite, hint

# Determinant of a covariance with mean eigenvalue 1 that counts as flat: a thickness of about 1e-6
# of the size, some ten times what rounding to float32 makes of a plane.
_THIN = 1e-12
_PADDING = 1e-6  # variance that flat clouds get, in mean variances: a thousandth of their size


class PointFrame(nn.Module):
    r"""Transform a cloud to its own frame, :math:`y_j = F^{-1}(x_j - c)`.

    The centroid c and the linear part F are moments of the points and move with them: the cloud
    :math:`A x + b` has the centroid :math:`A c + b` and the linear part :math:`A F D`, where D is
    diagonal with entries 1 and -1 and determinant 1, one of the four elements of
    ``finite_rotations("dihedral")``: axes have no signs. Samples :math:`F o` with all four
    elements o are the same set whatever the signs; with the 24 of ``"octahedral"`` they do not
    depend on the order of the axes either, so that two axes may exchange their places.

    * SO(3): columns of F are the principal axes, of falling variance.
    * Similarity(3): the same, times the root mean square of the coordinates.
    * GLPlus(3): :math:`F = S^{1/2} V`, S the covariance, V the axes of the fourth moments
      :math:`E[|z|^2 z z^T]` of the whitened points :math:`z = S^{-1/2}(x - c)`.

    Parameters
    ----------
    group : SO(3), Similarity(3) or GLPlus(3)
        What the frame follows.

    Raises
    ------
    ValueError
        If ``group`` is another.

    Equivariance
    ------------
    The set of the four frames of a cloud moves with it, exactly, for all translations and all
    elements of the group of positive determinant; under a mirror image the cloud in its frame is
    mirrored. It jumps where two eigenvalues meet: of the covariance for SO(3) and Similarity(3)
    (round or square cross-sections), of the fourth moments for GLPlus(3) (also Gaussian clouds).
    The law holds on both sides of a jump, but nearly equal clouds can have different frames, and
    gradients of the axes are not finite there. A flat cloud is padded for GLPlus(3) with a
    thousandth of its size, and the law then holds for similarities only; of coinciding points,
    the scale is 1.

    References
    ----------
    Cardoso, "Source separation using higher order moments", ICASSP 1989, for the fourth moments.

    Examples
    --------
    >>> import torch
    >>> from equigeo.groups import Similarity
    >>> bar = torch.tensor([[[0.0, 0, 0], [0, 4, 0], [1, 2, 0], [-1, 2, 0]]])
    >>> frame = PointFrame(Similarity(3))
    >>> frame.elements(bar)[0, :, 3]  # the centroid
    tensor([0., 2., 0., 1.])
    >>> frame(bar)[0, :, 0].abs()  # along the longest axis
    tensor([2.1909, 2.1909, 0.0000, 0.0000])
    """

    def __init__(self, group: LinearGroup) -> None:
        super().__init__()
        if group not in (SO(3), Similarity(3), GLPlus(3)):
            raise ValueError(f"group must be SO(3), Similarity(3) or GLPlus(3), got {group}")
        self.group = Affine(group)

    def extra_repr(self) -> str:
        """Return the options for ``print(module)``."""
        return f"{self.group.linear_group}"

    def elements(self, points: TensorLike) -> Tensor:
        """Return the frame of each cloud: its columns are the axes and the centroid.

        Parameters
        ----------
        points : Tensor or ndarray, (B, P, 3), floating
            Clouds.

        Returns
        -------
        Tensor, (B, 4, 4), dtype of ``points``
            Homogeneous matrices of positive determinant, computed in float64.

        Raises
        ------
        ValueError
            If shape or type do not fit, or a coordinate is not finite.
        """
        x = _given(points)
        linear, centroid = self._parts(x)
        return self.group.element(linear, centroid).to(x.dtype)

    @computes_in_float32
    def forward(self, points: TensorLike) -> Tensor:
        """Transform each cloud to its frame.

        Parameters
        ----------
        points : Tensor or ndarray, (B, P, 3), floating
            Clouds.

        Returns
        -------
        Tensor, (B, P, 3), dtype of ``points``
            Around the origin, along the axes.
        """
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
    # Whitened points move by rotations alone, which only moments beyond the second can tell.
    z = torch.linalg.solve(root, x.mT).mT
    weighted = z * z.square().sum(-1, keepdim=True)
    return root @ _proper_axes(weighted.mT @ z / x.shape[1])


def _proper_axes(symmetric: Tensor) -> Tensor:
    """Return eigenvectors (B, 3, 3) by descending eigenvalue, right-handed."""
    axes = torch.linalg.eigh(symmetric).eigenvectors.flip(-1)
    sign = torch.linalg.det(axes.detach()).sign()[:, None]
    return torch.cat([axes[..., :2], axes[..., 2:] * sign[..., None]], dim=-1)
