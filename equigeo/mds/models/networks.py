"""The networks of points by name."""

from __future__ import annotations

from typing import Final

from equigeo.mds.models.dgcnn import DGCNN
from equigeo.mds.models.point_net import PointNet
from equigeo.mds.models.point_net_plus_plus import PointNetPlusPlus
from equigeo.mds.models.point_network import PointNetwork
from equigeo.mds.models.point_transformer import PointTransformer

NETWORKS: Final[dict[str, type[PointNetwork]]] = {
    "pointnet": PointNet,
    "pointnet++": PointNetPlusPlus,
    "dgcnn": DGCNN,
    "transformer": PointTransformer,
}
