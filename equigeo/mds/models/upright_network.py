"""A classifier that also says which axis points up."""

from __future__ import annotations

from torch import Tensor, nn


class UprightNetwork(nn.Module):
    """Classify by the sum over all directions of axes that may be up.

    The network below has a logit for every pair of a class and a direction: each axis, forwards and
    backwards. Where training clouds stand upright, the direction is known, and learning the pair
    teaches the network to tell what lies on its side from what stands.

    Parameters
    ----------
    network : nn.Module
        From points to the logits of all pairs, directions fastest.
    num_classes : int
        Number of logits that are returned.

    Equivariance
    ------------
    That of the network.

    Examples
    --------
    >>> import torch
    >>> from equigeo.mds import PointNet
    >>> model = UprightNetwork(PointNet(10 * 6), num_classes=10).eval()
    >>> model(torch.rand(2, 100, 3)).shape, model.pairs(torch.rand(2, 100, 3)).shape
    (torch.Size([2, 10]), torch.Size([2, 10, 6]))
    """

    def __init__(self, network: nn.Module, num_classes: int) -> None:
        super().__init__()
        self.network, self.num_classes = network, num_classes

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """Classify.

        Parameters
        ----------
        x : Tensor, (B, points, dim), floating
            Points in axes of their own.
        mask : Tensor, (B, points), bool, optional
            Which points there are.

        Returns
        -------
        Tensor, (B, num_classes), floating
            Logits: logarithms of sums of exponentials over directions.
        """
        return self.pairs(x, mask).logsumexp(-1)

    def pairs(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """Give the logits of pairs, (B, num_classes, directions), for the same arguments."""
        logits: Tensor = self.network(x, mask)
        return logits.unflatten(-1, (self.num_classes, -1))
