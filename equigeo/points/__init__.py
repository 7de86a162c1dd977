"""Point clouds: neighbor searches, farthest point sampling, classification networks.

Clouds of one size are tensors ``(B, P, dim)``; clouds of several sizes have a mask ``(B, P)`` of
existing points, which ``pad_clouds`` builds from concatenated clouds. Arrays of NumPy are accepted
as positions and indices.
"""

from equigeo._deprecation import Renamed, renamed
from equigeo.points.farthest_point_sampling import farthest_point_sampling
from equigeo.points.gather_rows import gather_rows
from equigeo.points.nearest_neighbors import nearest_neighbors
from equigeo.points.neighbor_backend import neighbor_backend
from equigeo.points.networks import (
    DGCNN,
    PointNet,
    PointNetPlusPlus,
    PointTransformer,
)
from equigeo.points.networks import PointNetwork as _PointNetwork
from equigeo.points.radius_neighbors import radius_neighbors
from equigeo.points.ragged import pad_clouds

__all__ = [
    "DGCNN",
    "PointNet",
    "PointNetPlusPlus",
    "PointTransformer",
    "farthest_point_sampling",
    "gather_rows",
    "nearest_neighbors",
    "neighbor_backend",
    "pad_clouds",
    "radius_neighbors",
]


def __dir__() -> list[str]:
    return __all__


_NEW = "PointNet, PointNetPlusPlus, DGCNN or PointTransformer"
__getattr__ = renamed(__name__, {"PointNetwork": Renamed(_NEW, "0.3", _PointNetwork)})
