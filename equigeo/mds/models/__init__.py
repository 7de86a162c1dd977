"""Networks on embedded points."""

from equigeo.mds.models.invariant_point_net import InvariantPointNet
from equigeo.mds.models.point_net import PointNet

__all__ = ["InvariantPointNet", "PointNet"]
