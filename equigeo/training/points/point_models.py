"""The models that classify point clouds."""

from __future__ import annotations

from typing import Any, Final

from equigeo.affine import AffinePointNet
from equigeo.mds import InvariantPointNet
from equigeo.training.points.plain_point_net import PlainPointNet

# Each has ``preset(name, num_classes)``, ``from_config(config)`` and a ``config`` of JSON types
# with ``num_classes``, and takes (clouds, points, 3). One with an embedding also says of which
# clouds it is ``flagged``.
POINT_MODELS: Final[dict[str, Any]] = {
    "affine": AffinePointNet,
    "mds": InvariantPointNet,
    "plain": PlainPointNet,
}
