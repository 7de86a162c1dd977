"""Mesh networks: triangle meshes, their primal and dual graphs, convolution, pooling, models.

Modules import only from those before them::

    errors -> geometry -> io -> repair -> load_report -> load_mesh
                                repair -> remesh
              geometry -> pooling -> conv -> models
"""

from equigeo.mesh.conv.primal_dual_conv import PrimalDualConv
from equigeo.mesh.conv.primal_dual_field_conv import PrimalDualFieldConv
from equigeo.mesh.conv.residual_block import ResidualBlock, checkpoint_blocks
from equigeo.mesh.errors import MeshError
from equigeo.mesh.geometry.dual_kind import DualKind
from equigeo.mesh.geometry.orient import orient
from equigeo.mesh.geometry.patches import Patch, patches
from equigeo.mesh.geometry.primal_dual_graph import PrimalDualGraph
from equigeo.mesh.geometry.triangle_mesh import TriangleMesh
from equigeo.mesh.load_mesh import load_mesh
from equigeo.mesh.load_report import LoadReport, MeshAttributes
from equigeo.mesh.models import (
    ClassifierConfig,
    Inspection,
    PrimalDualClassifier,
    PrimalDualSegmenter,
    SegmenterConfig,
)
from equigeo.mesh.pooling.edge_pool import EdgePool
from equigeo.mesh.pooling.unpool import PoolLog, unpool
from equigeo.mesh.remesh.simplify import simplify
from equigeo.mesh.remesh.subdivide import subdivide

__all__ = [
    "ClassifierConfig",
    "DualKind",
    "EdgePool",
    "Inspection",
    "LoadReport",
    "MeshAttributes",
    "MeshError",
    "Patch",
    "PoolLog",
    "PrimalDualClassifier",
    "PrimalDualConv",
    "PrimalDualFieldConv",
    "PrimalDualGraph",
    "PrimalDualSegmenter",
    "ResidualBlock",
    "SegmenterConfig",
    "TriangleMesh",
    "checkpoint_blocks",
    "load_mesh",
    "orient",
    "patches",
    "simplify",
    "subdivide",
    "unpool",
]


def __dir__() -> list[str]:
    return __all__
