"""Invariant pairwise features without a frame."""

from __future__ import annotations

import torch
from torch import Tensor

from equigeo.graphs.inputs import TensorLike
from equigeo.points.cloud_checks import given_clouds

_ORDERS = 4  # of derivatives


def gram_root(x: TensorLike) -> Tensor:
    r"""Return the square root of the Gram matrix of centred points.

    .. math:: R = (X_c X_c^T)^{1/2} = X_c\, C^{-1/2} X_c^T

    Its rows are at the distances of the points. Nothing has to be chosen for it, so that it suits
    pairwise features, such as the bias of an attention.

    Parameters
    ----------
    x : Tensor or ndarray, (..., points, dim), float32 or float64
        Points.

    Returns
    -------
    Tensor, (..., points, points), dtype of ``x``
        Symmetric, not negative, of the rank of the cloud.

    Raises
    ------
    TypeError
        If points are not floating.
    ValueError
        If there are no axes of points and components.

    Notes
    -----
    Four times differentiable, for symmetric clouds too. Where a cloud lies in a plane or on a line,
    points that leave it change nothing to first order: there the root has a kink, and this is its
    mean slope.

    Equivariance
    ------------
    Invariant under all isometries, for every cloud, and continuous; a permutation moves rows and
    columns.

    Examples
    --------
    >>> square = torch.tensor([[0.0, 0], [1, 0], [1, 1], [0, 1]], dtype=torch.float64)
    >>> root = gram_root(square)
    >>> torch.allclose(torch.cdist(root, root), torch.cdist(square, square))
    True
    """
    x = given_clouds(x, batched=False)
    if not x.numel():
        return x.new_zeros(*x.shape[:-1], x.shape[-2])
    points = x.double()
    size = points.detach().abs().amax((-2, -1), keepdim=True)
    size = torch.where(size > 0, size, 1)
    centred = (points - points.mean(-2, keepdim=True)) / size
    _, spread, axes = torch.linalg.svd(centred.detach(), full_matrices=False)
    # The squares of singular values would lose half of the digits of small ones.
    y = centred @ axes.mT
    # What n sums of rounded numbers can leave of nothing: 8 roundings, times the root of n.
    least = 8 * torch.finfo(x.dtype).eps * x.shape[-2] ** 0.5
    some = spread > least
    root = _inverse_root(y.mT @ y, torch.where(some, spread, 1), some.to(y.dtype))
    return (size * (y @ root @ y.mT)).to(x.dtype)


def _inverse_root(
    moments: Tensor,
    roots: Tensor,
    some: Tensor,  # (..., dim), whether the axis is nonzero
) -> Tensor:
    """Return the inverse square root of diagonal moments (..., dim, dim) on the nonzero axes."""
    moments = torch.diag_embed(roots.square()) + (moments - moments.detach())
    slope = roots[..., :, None] + roots[..., None, :]
    on = some[..., :, None] * some[..., None, :]
    identity, root = torch.diag_embed(some), torch.diag_embed(some / roots)
    # Newton steps for R C R = 1 at the solution: they change no value, and each adds one order of
    # derivatives, also for equal moments, where eigenvectors are not differentiable.
    for _ in range(_ORDERS):
        root = root + on * (identity - root @ moments @ root) / slope
    return root
