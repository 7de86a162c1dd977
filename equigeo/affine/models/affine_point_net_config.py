"""Configuration of an AffinePointNet."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

from equigeo.groups import SO, GLPlus, LinearGroup, Similarity
from equigeo.nn.config import Config
from equigeo.nn.value_range import Range

_GROUPS: dict[str, type[LinearGroup]] = {"SO": SO, "Similarity": Similarity, "GLPlus": GLPlus}


@dataclass(frozen=True)
class AffinePointNetConfig(Config):
    """Configuration of :class:`AffinePointNet`.

    Parameters
    ----------
    num_classes : int
        Number of logits.
    group : {"SO", "Similarity", "GLPlus"}
        Group of the frame: rotations, rotations and scales, or all linear maps of positive
        determinant; translations always.
    rotations : {"dihedral", "octahedral"}
        Samples around the axes of the frame, 4 or 24.
    centers, neighbors : tuple of int
        Numbers of points at which the two convolutions are evaluated, and of points that each
        reads.
    radii : tuple of float
        Radii of the convolutions. In the frame the root mean square of the coordinates is 1; for
        ``SO`` the unit is that of the cloud.
    channels : tuple of int
        Channels after the lifting, after the group convolution, and of the descriptor of a cloud.
    rank, gaussians : int
        Rank of the kernels, and Gaussians along an axis.
    dropout : float
        Dropout probability before the classifier.

    Examples
    --------
    >>> config = AffinePointNetConfig(10, group="GLPlus")
    >>> AffinePointNetConfig.from_dict(config.to_dict()) == config
    True
    """

    title: ClassVar[str] = "the configuration of an AffinePointNet"
    ranges: ClassVar[Mapping[str, Range]] = {
        "num_classes": Range(1, 10**6),
        "centers": Range(1, 2**20),
        "neighbors": Range(1, 65_536),
        "radii": Range(0.0, 1e6, above=True),
        "channels": Range(1, 65_536),
        "rank": Range(1, 65_536),
        "gaussians": Range(1, 256),
        "dropout": Range(0.0, 1.0),
    }

    num_classes: int
    group: Literal["SO", "Similarity", "GLPlus"] = "Similarity"
    rotations: Literal["dihedral", "octahedral"] = "dihedral"
    centers: tuple[int, int] = (128, 32)
    neighbors: tuple[int, int] = (16, 16)
    radii: tuple[float, float] = (0.5, 1.0)
    channels: tuple[int, int, int] = (48, 96, 192)
    rank: int = 16
    gaussians: int = 3
    dropout: float = 0.3

    def __post_init__(self) -> None:
        """Validate combinations that would otherwise fail late or silently."""
        super().__post_init__()
        for name, length in {"centers": 2, "neighbors": 2, "radii": 2, "channels": 3}.items():
            if len(value := getattr(self, name)) != length:
                raise ValueError(f"{name} must be {length} numbers, got {value}")
        if self.centers[1] > self.centers[0]:
            raise ValueError(f"centers must not become more, got {self.centers}")

    def make_group(self) -> LinearGroup:
        """Return the group of the frame."""
        return _GROUPS[self.group](3)
