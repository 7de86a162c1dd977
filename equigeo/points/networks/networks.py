"""The networks of points by name."""

from __future__ import annotations

from typing import Final

from equigeo.points.networks.dgcnn import DGCNN
from equigeo.points.networks.point_net import PointNet
from equigeo.points.networks.point_net_plus_plus import PointNetPlusPlus
from equigeo.points.networks.point_network import PointNetwork
from equigeo.points.networks.point_transformer import PointTransformer

NETWORKS: Final[dict[str, type[PointNetwork]]] = {
    "pointnet": PointNet,
    "pointnet++": PointNetPlusPlus,
    "dgcnn": DGCNN,
    "transformer": PointTransformer,
}
