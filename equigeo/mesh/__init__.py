"""Mesh networks: triangle meshes, their primal and dual graphs, convolution, pooling, models.

Modules import only from those before them::

    errors -> geometry -> io -> repair -> load_report -> load_mesh
                                repair -> remesh
              geometry -> pooling -> conv -> models
"""

from equigeo._deprecation import Renamed, renamed
from equigeo.mesh.conv.primal_dual_conv import PrimalDualConv
from equigeo.mesh.conv.primal_dual_field_conv import PrimalDualFieldConv
from equigeo.mesh.conv.residual_block import ResidualBlock, recompute_blocks
from equigeo.mesh.errors import MeshError
from equigeo.mesh.geometry.dual_kind import DualKind
from equigeo.mesh.geometry.orient import orient as _orient
from equigeo.mesh.geometry.patches import Patch as _Patch
from equigeo.mesh.geometry.patches import patches
from equigeo.mesh.geometry.primal_dual_graph import PrimalDualGraph
from equigeo.mesh.geometry.triangle_mesh import TriangleMesh
from equigeo.mesh.load_mesh import load_mesh
from equigeo.mesh.load_report import LoadReport
from equigeo.mesh.load_report import MeshAttributes as _MeshAttributes
from equigeo.mesh.models import (
    ClassifierConfig,
    PrimalDualClassifier,
    PrimalDualSegmenter,
    SegmenterConfig,
)
from equigeo.mesh.models.inspection import Inspection as _Inspection
from equigeo.mesh.pooling.edge_pool import EdgePool
from equigeo.mesh.pooling.unpool import PoolLog, unpool
from equigeo.mesh.remesh.simplify import simplify
from equigeo.mesh.remesh.subdivide import subdivide

__all__ = [
    "ClassifierConfig",
    "DualKind",
    "EdgePool",
    "LoadReport",
    "MeshError",
    "PoolLog",
    "PrimalDualClassifier",
    "PrimalDualConv",
    "PrimalDualFieldConv",
    "PrimalDualGraph",
    "PrimalDualSegmenter",
    "ResidualBlock",
    "SegmenterConfig",
    "TriangleMesh",
    "load_mesh",
    "patches",
    "recompute_blocks",
    "simplify",
    "subdivide",
    "unpool",
]


def __dir__() -> list[str]:
    return __all__


__getattr__ = renamed(
    __name__,
    {
        "Inspection": Renamed("PrimalDualClassifier.inspect", "0.3", _Inspection),
        "MeshAttributes": Renamed("LoadReport.attributes", "0.3", _MeshAttributes),
        "Patch": Renamed("patches", "0.3", _Patch),
        "checkpoint_blocks": Renamed("recompute_blocks", "0.3"),
        "orient": Renamed("PrimalDualGraph.from_mesh", "0.3", _orient),
    },
)
