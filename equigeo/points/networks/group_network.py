"""One small PointNet on every group of neighbours."""

from __future__ import annotations

from torch import Tensor, nn


def see_groups(layers: nn.ModuleList, y: Tensor, mask: Tensor | None = None) -> Tensor:
    """Pass the members of groups through layers and take the maximum over each group.

    Parameters
    ----------
    layers : nn.ModuleList
        Of :class:`equigeo.points.networks.point_layer.PointLayer`.
    y : Tensor, (B, Q, k, C), floating
        What is seen of the k members of Q groups.
    mask : Tensor, (B, Q), bool, optional
        Which groups there are.

    Returns
    -------
    Tensor, (B, Q, width), floating
        Features of the groups; zero where there is none.

    Equivariance
    ------------
    Invariant to permutations of members, equivariant to those of groups.

    Examples
    --------
    >>> import torch
    >>> from equigeo.points.networks.point_layer import PointLayer
    >>> see_groups(nn.ModuleList([PointLayer(3, 8)]), torch.rand(2, 10, 4, 3)).shape
    torch.Size([2, 10, 8])
    """
    members = None if mask is None else mask[:, :, None].expand(y.shape[:3])
    for layer in layers:
        y = layer(y, members)
    return y.amax(2)
