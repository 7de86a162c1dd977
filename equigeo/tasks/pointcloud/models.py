"""Point cloud classifiers and a plain baseline."""

from __future__ import annotations

from typing import Any, Final

from equigeo.affine import AffinePointNet
from equigeo.mds import InvariantPointNet, InvariantPointNetConfig


class PlainPointNet(InvariantPointNet):
    """Network of an ``InvariantPointNet`` without the embedding, the only difference."""

    def __init__(self, config: InvariantPointNetConfig) -> None:
        if config.group is not None:
            raise ValueError(f"group must be None for a plain network, got {config.group!r}")
        super().__init__(config)

    @classmethod
    def preset(cls, name: str, num_classes: int, **changes: Any) -> PlainPointNet:
        """Build a preset, with the arguments of :meth:`equigeo.mds.InvariantPointNet.preset`."""
        config = InvariantPointNet.preset(name, num_classes, **changes).config
        return cls(InvariantPointNetConfig(num_classes, config.network, config.settings, None))


# Each has ``preset(name, num_classes)``, ``from_config(config)`` and a ``config`` of JSON types
# with ``num_classes``, and takes (clouds, points, 3). One with an embedding also has
# ``flagged``.
POINT_MODELS: Final[dict[str, Any]] = {
    "affine": AffinePointNet,
    "mds": InvariantPointNet,
    "plain": PlainPointNet,
}
