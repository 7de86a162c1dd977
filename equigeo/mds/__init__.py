"""Invariant embeddings of point clouds and distances, and networks on top of them."""

from equigeo import points
from equigeo._deprecation import Renamed, renamed
from equigeo.mds.canonicalization.canonicalized import Canonicalized
from equigeo.mds.canonicalization.pose_loss import pose_loss
from equigeo.mds.distances.distance_embed import distance_embed
from equigeo.mds.distances.distance_embedding import DistanceEmbedding
from equigeo.mds.distances.farthest_landmarks import farthest_landmarks as _farthest_landmarks
from equigeo.mds.distances.geodesic_embed import geodesic_embed
from equigeo.mds.distances.graph_distances import graph_distances
from equigeo.mds.distances.landmark_embed import landmark_embed
from equigeo.mds.embedding.embed import embed
from equigeo.mds.embedding.embed_options import EmbedOptions
from equigeo.mds.embedding.frame_average import frame_average
from equigeo.mds.embedding.frame_components import frame_components
from equigeo.mds.embedding.frame_lift import frame_lift
from equigeo.mds.embedding.frame_set import FrameSet
from equigeo.mds.embedding.frames import frames
from equigeo.mds.embedding.invariant import Invariant
from equigeo.mds.embedding.mds_result import MDSResult
from equigeo.mds.embedding.sample_frame import sample_frame
from equigeo.mds.models.invariant_point_net import InvariantPointNet
from equigeo.mds.models.invariant_point_net_config import InvariantPointNetConfig
from equigeo.mds.routing.attention_model import AttentionModel
from equigeo.mds.routing.attention_model_config import AttentionModelConfig
from equigeo.mds.routing.tours import Tours, tour_lengths

__all__ = [
    "AttentionModel",
    "AttentionModelConfig",
    "Canonicalized",
    "DistanceEmbedding",
    "EmbedOptions",
    "FrameSet",
    "Invariant",
    "InvariantPointNet",
    "InvariantPointNetConfig",
    "MDSResult",
    "Tours",
    "distance_embed",
    "embed",
    "frame_average",
    "frame_components",
    "frame_lift",
    "frames",
    "geodesic_embed",
    "graph_distances",
    "landmark_embed",
    "pose_loss",
    "sample_frame",
    "tour_lengths",
]

_MOVED = (points.DGCNN, points.PointNet, points.PointNetPlusPlus, points.PointTransformer)
__getattr__ = renamed(
    __name__,
    {cls.__name__: Renamed(f"points.{cls.__name__}", "0.3", cls) for cls in _MOVED}
    | {"farthest_landmarks": Renamed("geodesic_embed", "0.3", _farthest_landmarks)},
)


def __dir__() -> list[str]:
    return __all__
