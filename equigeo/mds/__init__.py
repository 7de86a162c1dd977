"""Invariant embeddings of point clouds and distances, and networks on top of them."""

from equigeo._core.deprecation import Renamed, private_names, renamed
from equigeo.mds.attention_model import AttentionModel, AttentionModelConfig, Tours, tour_lengths
from equigeo.mds.canonicalization import Canonicalized, pose_loss
from equigeo.mds.embed import MDSResult, embed
from equigeo.mds.frames import draw_frames, frame_average, frame_components, frame_lift, frames
from equigeo.mds.geodesics import geodesic_embed, geodesic_errors, graph_distances
from equigeo.mds.invariant import Invariant, InvariantPointNet, InvariantPointNetConfig
from equigeo.mds.landmarks import DistanceEmbedding, distance_embed, landmark_embed
from equigeo.mds.options import EmbedOptions, FrameSet

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
    "geodesic_errors",
    "graph_distances",
    "landmark_embed",
    "pose_loss",
    "tour_lengths",
]
__dir__ = __all__.copy

_SVD = "U, s, _ = torch.linalg.svd(x - x.mean(-2, keepdim=True), full_matrices=False)"
_MOVED = ("DGCNN", "PointNet", "PointNetPlusPlus", "PointTransformer")
_PRIVATE = {name: ("equigeo.points", f"points.{name}") for name in _MOVED}
_PRIVATE["farthest_landmarks"] = ("equigeo.mds.landmarks", "geodesic_embed")
_OLD = {
    "gram_root": Renamed(f"{_SVD} and (U * s[..., None, :]) @ U.mT", "0.3", removed=True),
    "sample_frame": Renamed(
        "Invariant.draw", "0.3", lambda frames, **options: draw_frames(frames, **options).y[0]
    ),
}
__getattr__ = renamed(__name__, _OLD | private_names("0.3", _PRIVATE))
