"""Networks on embedded points."""

from equigeo.mds.models.attention_model import AttentionModel
from equigeo.mds.models.attention_model_config import AttentionModelConfig
from equigeo.mds.models.dgcnn import DGCNN
from equigeo.mds.models.invariant_point_net import InvariantPointNet
from equigeo.mds.models.invariant_point_net_config import InvariantPointNetConfig
from equigeo.mds.models.point_net import PointNet
from equigeo.mds.models.point_net_plus_plus import PointNetPlusPlus
from equigeo.mds.models.point_network import PointNetwork
from equigeo.mds.models.point_transformer import PointTransformer
from equigeo.mds.models.tour_lengths import tour_lengths
from equigeo.mds.models.tours import Tours

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
