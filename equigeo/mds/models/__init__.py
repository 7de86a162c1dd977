"""Networks on embedded points."""

from equigeo.mds.models.invariant_point_net import InvariantPointNet
from equigeo.mds.models.invariant_point_net_config import InvariantPointNetConfig
from equigeo.mds.routing.attention_model import AttentionModel
from equigeo.mds.routing.attention_model_config import AttentionModelConfig
from equigeo.mds.routing.tour_lengths import tour_lengths
from equigeo.mds.routing.tours import Tours
from equigeo.points.networks.dgcnn import DGCNN
from equigeo.points.networks.point_net import PointNet
from equigeo.points.networks.point_net_plus_plus import PointNetPlusPlus
from equigeo.points.networks.point_network import PointNetwork
from equigeo.points.networks.point_transformer import PointTransformer

__all__ = [
    "DGCNN",
    "AttentionModel",
    "AttentionModelConfig",
    "InvariantPointNet",
    "InvariantPointNetConfig",
    "PointNet",
    "PointNetPlusPlus",
    "PointNetwork",
    "PointTransformer",
    "Tours",
    "tour_lengths",
]


def __dir__() -> list[str]:
    return __all__
