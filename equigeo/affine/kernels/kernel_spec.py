"""Options of convolution kernels."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from torch import Tensor

from equigeo._integers import convert_integers
from equigeo.affine.kernels.kernel_grid import kernel_grid

NetworkName = Literal["siren", "gabor", "rbf"]
WindowName = Literal["compact", "disc", "sigmoid", "none"]


@dataclass(frozen=True)
class KernelSpec:
    """Size, network and window of a convolution kernel.

    Parameters
    ----------
    size : int
        Pixels along each axis of the spatial grid.
    network : {"siren", "gabor", "rbf"}
        Function of the relative coordinates.
    window : {"compact", "disc", "sigmoid", "none"}
        Factor of relative coordinates ``(u, Y, R)``: ``compact`` is :math:`(1 - |u|^2)^2_+ (1 -
        |Y|^2/r^2)^3_+`, ``disc`` cuts at ``|u| = 1``, ``sigmoid`` is the published factor for GL+,
        ``sigmoid(2 - 2 |(u, Y, log R)|)``.
    extent : float
        Half the side of the spatial grid, in units of ``u``.
    stretch_reach : float
        Radius ``r`` of the compact window in relative log-stretch.
    hidden : int
        Width of the hidden layers of ``siren`` and ``gabor``.
    centers, group_centers : int
        Number of Gaussians of ``rbf``: along an axis of a kernel on space; in total if the kernel
        reads the group.
    continuous_rotation : bool
        Embed rotations as ``(cos, sin)`` or matrices; their logarithm jumps at half turns. Always
        on for ``rbf``.

    Examples
    --------
    >>> KernelSpec(7, network="rbf").window
    'compact'
    """

    size: int = 5
    network: NetworkName = "siren"
    window: WindowName = "compact"
    extent: float = 1.0
    stretch_reach: float = 1.0
    hidden: int = 60
    centers: int = 5
    group_centers: int = 12
    continuous_rotation: bool = False

    def __post_init__(self) -> None:
        """Validate names and numbers."""
        if self.network not in ("siren", "gabor", "rbf"):
            raise ValueError(f"network must be siren, gabor or rbf, got {self.network!r}")
        if self.window not in ("compact", "disc", "sigmoid", "none"):
            raise ValueError(f"window must be compact, disc, sigmoid or none, got {self.window!r}")
        convert_integers(self)
        for name in ("size", "hidden", "centers", "group_centers"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be positive, got {getattr(self, name)}")
        for name in ("extent", "stretch_reach"):
            value = getattr(self, name)
            if isinstance(value, bool) or not 0 < value < math.inf:
                raise ValueError(f"{name} must be positive and finite, got {value}")

    @property
    def reach(self) -> float:
        """Relative log-stretch at which the kernel vanishes; infinite without a window."""
        return self.stretch_reach if self.window == "compact" else float("inf")

    def grid(self, n: int) -> Tensor:
        """Return the cell centres ``(size ** n, n)`` in n dimensions, the first axis slowest."""
        return kernel_grid(self.size, n, self.extent)

    def pixel_volume(self, n: int) -> float:
        """Return the volume of a cell of the grid, in units of ``u``."""
        return float(2 * self.extent / self.size) ** n
