"""PointNet: a perceptron at every point, and the maximum over points."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from torch import Tensor, nn


class PointNet(nn.Module):
    """Classify clouds by features of single points; no geometry but coordinates.

    The layers of PointNet without its input transform, which an embedding makes superfluous.

    Parameters
    ----------
    num_classes : int
        Number of logits.
    widths : sequence of int
        Channels of the layers at every point.
    hidden : sequence of int
        Channels of the layers after the maximum.
    dropout : float
        Share of channels set to zero before the last layer.
    dim : int
        Coordinates of a point.

    Raises
    ------
    ValueError
        If a number is not positive.

    Equivariance
    ------------
    Invariant under permutations of points, and under nothing else.

    References
    ----------
    Qi et al., "PointNet: Deep Learning on Point Sets for 3D Classification and Segmentation",
    CVPR 2017.

    Examples
    --------
    >>> import torch
    >>> PointNet(10).eval()(torch.rand(2, 100, 3)).shape
    torch.Size([2, 10])
    """

    def __init__(
        self,
        num_classes: int,
        widths: Sequence[int] = (64, 64, 128, 512),
        hidden: Sequence[int] = (256, 128),
        dropout: float = 0.3,
        dim: int = 3,
    ) -> None:
        super().__init__()
        if not widths or min(num_classes, dim, *widths, *hidden) < 1:
            raise ValueError(
                f"numbers must be positive, got {num_classes} classes, widths {tuple(widths)}, "
                f"hidden {tuple(hidden)}, {dim} coordinates"
            )
        self.points = nn.ModuleList(_Layer(a, b) for a, b in pairwise([dim, *widths]))
        self.hidden = nn.ModuleList(_Layer(a, b) for a, b in pairwise([widths[-1], *hidden]))
        self.dropout = nn.Dropout(dropout)
        self.last = nn.Linear([widths[-1], *hidden][-1], num_classes)

    def forward(self, x: Tensor) -> Tensor:
        """Classify.

        Parameters
        ----------
        x : Tensor, (..., points, dim), floating
            Clouds.

        Returns
        -------
        Tensor, (..., num_classes), floating
            Logits.
        """
        for layer in self.points:
            x = layer(x)
        x = x.amax(-2)
        for layer in self.hidden:
            x = layer(x)
        return self.last(self.dropout(x))


class _Layer(nn.Module):
    """A linear map, batch norm over all rows, and a ReLU."""

    def __init__(self, channels: int, width: int) -> None:
        super().__init__()
        self.linear = nn.Linear(channels, width, bias=False)
        self.norm = nn.BatchNorm1d(width)

    def forward(self, x: Tensor) -> Tensor:
        y = self.linear(x)
        return self.norm(y.reshape(-1, y.shape[-1])).view(y.shape).relu()
