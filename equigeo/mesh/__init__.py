"""Mesh networks: triangle meshes, their primal and dual graphs, convolution, pooling, models."""

from equigeo.mesh.conv.primal_dual_conv import PrimalDualConv
from equigeo.mesh.conv.residual_block import ResidualBlock
from equigeo.mesh.errors import MeshError
from equigeo.mesh.geometry.dual_kind import DualKind
from equigeo.mesh.geometry.orient import orient
from equigeo.mesh.geometry.primal_dual_graph import PrimalDualGraph
from equigeo.mesh.geometry.triangle_mesh import TriangleMesh
from equigeo.mesh.io.load_mesh import load_mesh
from equigeo.mesh.io.load_report import LoadReport
from equigeo.mesh.models import ClassifierConfig, PrimalDualClassifier
from equigeo.mesh.pooling.edge_pool import EdgePool
from equigeo.mesh.pooling.pool_log import PoolLog
from equigeo.mesh.pooling.unpool import unpool

__all__ = [
    "ClassifierConfig",
    "DualKind",
    "EdgePool",
    "LoadReport",
    "MeshError",
    "PoolLog",
    "PrimalDualClassifier",
    "PrimalDualConv",
    "PrimalDualGraph",
    "ResidualBlock",
    "TriangleMesh",
    "load_mesh",
    "orient",
    "unpool",
]


def __dir__() -> list[str]:
    return __all__
