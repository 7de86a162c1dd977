"""A PointNet that sees invariant coordinates."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from equigeo.mds.invariant import Invariant
from equigeo.mds.models.point_net import PointNet


class InvariantPointNet(nn.Module):
    """PointNet behind :class:`equigeo.mds.Invariant`.

    Parameters
    ----------
    num_classes : int
        Number of logits.
    kind : str
        Frame or frames, as of :class:`equigeo.mds.Invariant`.
    group : {"O", "SO"}
        Whether a cloud and its mirror image are the same.

    Raises
    ------
    ValueError
        If a choice is unknown.

    Equivariance
    ------------
    Invariant under rotations, reflections, translations, scalings and permutations, for clouds
    whose embedding is not flagged.

    References
    ----------
    Zhang et al., "Revisiting transformation invariant geometric deep learning", 2021.

    Examples
    --------
    >>> import torch
    >>> model = InvariantPointNet.preset("default", num_classes=10).eval()
    >>> x = torch.rand(2, 100, 3)
    >>> torch.allclose(model(x), model(3 - 2 * x.flip(-1)), atol=1e-4)
    True
    """

    def __init__(self, num_classes: int, kind: str = "skew", group: str = "O") -> None:
        super().__init__()
        self.config: dict[str, Any] = {"num_classes": num_classes, "kind": kind, "group": group}
        self.invariant = Invariant(PointNet(num_classes), kind=kind, group=group)

    @classmethod
    def preset(cls, name: str, num_classes: int) -> InvariantPointNet:
        """Build a preset.

        Parameters
        ----------
        name : {"default"}
            The only one.
        num_classes : int
            Number of logits.

        Raises
        ------
        ValueError
            If the name is unknown.
        """
        if name != "default":
            raise ValueError(f"preset must be 'default', got {name!r}")
        return cls(num_classes)

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> InvariantPointNet:
        """Build from what :attr:`config` holds.

        Parameters
        ----------
        config : dict of JSON types
            Settings; those that are missing take their defaults.

        Raises
        ------
        ValueError
            If a setting is unknown or missing.
        """
        unknown = set(config) - {"num_classes", "kind", "group"}
        if unknown or "num_classes" not in config:
            raise ValueError(f"a configuration needs num_classes; unknown are {sorted(unknown)}")
        return cls(**config)

    def forward(self, points: Tensor) -> Tensor:
        """Classify.

        Parameters
        ----------
        points : Tensor, (B, points, 3), floating
            Clouds.

        Returns
        -------
        Tensor, (B, num_classes), floating
            Logits.
        """
        return self.invariant(points)
