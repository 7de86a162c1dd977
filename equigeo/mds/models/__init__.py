"""Networks on embedded points."""

from equigeo.mds.models.dgcnn import DGCNN
from equigeo.mds.models.invariant_point_net import InvariantPointNet
from equigeo.mds.models.invariant_point_net_config import InvariantPointNetConfig
from equigeo.mds.models.point_net import PointNet
from equigeo.mds.models.point_network import PointNetwork
from equigeo.mds.models.point_transformer import PointTransformer

__all__ = [
    "DGCNN",
    "InvariantPointNet",
    "InvariantPointNetConfig",
    "PointNet",
    "PointNetwork",
    "PointTransformer",
]
