"""Point clouds: neighbor searches, farthest point sampling, classification networks.

Clouds of one size are tensors ``(B, P, dim)``; clouds of several sizes have a mask ``(B, P)`` of
existing points, which ``pad_clouds`` builds from concatenated clouds. Arrays of NumPy are accepted
as positions and indices.
"""

from equigeo._core.deprecation import private_names, renamed
from equigeo.points.clouds import gather_rows, pad_clouds
from equigeo.points.neighbors import nearest_neighbors, radius_neighbors
from equigeo.points.networks import DGCNN, PointNet, PointNetPlusPlus, PointTransformer
from equigeo.points.sampling import farthest_point_sampling
from equigeo.points.search import neighbor_backend

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
_PRIVATE = {"PointNetwork": ("equigeo.points.layers", _NEW)}
__getattr__ = renamed(__name__, private_names("0.3", _PRIVATE))
