"""Point cloud classifiers and a plain baseline."""

from __future__ import annotations

from typing import Any, Final

from equigeo.affine import AffinePointNet
from equigeo.mds import InvariantPointNet, InvariantPointNetConfig


class PlainPointNet(InvariantPointNet):
    """Network of an InvariantPointNet without the embedding; it is not invariant.

    They are centred and scaled as there, so that the embedding is the only difference.

    Parameters
    ----------
    config : InvariantPointNetConfig
        Without a group.

    Raises
    ------
    ValueError
        If there is a group, or a choice is unknown.

    Equivariance
    ------------
    Invariant under translations, scalings and permutations, and under nothing else.

    Examples
    --------
    >>> import torch
    >>> model = PlainPointNet.preset("pointnet", num_classes=10).eval()
    >>> x = torch.rand(2, 100, 3)
    >>> torch.allclose(model(x), model(2 * x + 1), atol=1e-4)
    True
    >>> torch.allclose(model(x), model(x.flip(-1)), atol=1e-4)
    False
    """

    def __init__(self, config: InvariantPointNetConfig) -> None:
        if config.group is not None:
            raise ValueError(f"group must be None for a plain network, got {config.group!r}")
        super().__init__(config)

    @classmethod
    def preset(cls, name: str, num_classes: int, **changes: Any) -> PlainPointNet:
        """Build a preset.

        Parameters
        ----------
        name : {"default", "pointnet", "pointnet++", "dgcnn", "transformer"}
            The network.
        num_classes : int
            Number of logits.
        **changes
            Of the network and its settings, as of :meth:`equigeo.mds.InvariantPointNet.preset`.

        Raises
        ------
        ValueError
            If a name is unknown or a value out of range.
        """
        config = InvariantPointNet.preset(name, num_classes, **changes).config
        return cls(InvariantPointNetConfig(num_classes, config.network, config.settings, None))


# Each has ``preset(name, num_classes)``, ``from_config(config)`` and a ``config`` of JSON types
# with ``num_classes``, and takes (clouds, points, 3). One with an embedding also says of which
# clouds it is ``flagged``.
POINT_MODELS: Final[dict[str, Any]] = {
    "affine": AffinePointNet,
    "mds": InvariantPointNet,
    "plain": PlainPointNet,
}
