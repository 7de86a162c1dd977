"""Networks of points: PointNet, PointNet++, DGCNN, point transformer."""

from typing import Final

from equigeo.points.networks.dgcnn import DGCNN
from equigeo.points.networks.point_net import PointNet
from equigeo.points.networks.point_net_plus_plus import PointNetPlusPlus
from equigeo.points.networks.point_network import PointNetwork
from equigeo.points.networks.point_transformer import PointTransformer

# By the name that configurations carry.
NETWORKS: Final[dict[str, type[PointNetwork]]] = {
    "pointnet": PointNet,
    "pointnet++": PointNetPlusPlus,
    "dgcnn": DGCNN,
    "transformer": PointTransformer,
}

__all__ = ["DGCNN", "NETWORKS", "PointNet", "PointNetPlusPlus", "PointNetwork", "PointTransformer"]


def __dir__() -> list[str]:
    return __all__
