"""Mesh networks: triangle meshes, their primal and dual graphs, convolution, pooling, models."""

from equigeo.mesh.dual_kind import DualKind
from equigeo.mesh.edge_pool import EdgePool
from equigeo.mesh.errors import MeshError
from equigeo.mesh.load_mesh import load_mesh
from equigeo.mesh.load_report import LoadReport
from equigeo.mesh.models import ClassifierConfig, PrimalDualClassifier
from equigeo.mesh.orient import orient
from equigeo.mesh.pool_log import PoolLog
from equigeo.mesh.primal_dual_conv import PrimalDualConv
from equigeo.mesh.primal_dual_graph import PrimalDualGraph
from equigeo.mesh.residual_block import ResidualBlock
from equigeo.mesh.triangle_mesh import TriangleMesh
from equigeo.mesh.unpool import unpool

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
