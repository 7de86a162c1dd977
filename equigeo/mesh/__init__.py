"""Mesh networks: triangle meshes, their primal and dual graphs, convolution, pooling, models."""

from equigeo._core.deprecation import Renamed, private_names, renamed
from equigeo.mesh.damage import damage
from equigeo.mesh.errors import MeshError
from equigeo.mesh.export import compile_package, export_program
from equigeo.mesh.geometry.dual_graph import DualKind
from equigeo.mesh.geometry.patches import patches
from equigeo.mesh.geometry.primal_dual_graph import PrimalDualGraph
from equigeo.mesh.geometry.triangle_mesh import TriangleMesh
from equigeo.mesh.load_mesh import load_mesh
from equigeo.mesh.nn.classifier import ClassifierConfig, PrimalDualClassifier
from equigeo.mesh.nn.conv import PrimalDualConv
from equigeo.mesh.nn.field_conv import PrimalDualFieldConv
from equigeo.mesh.nn.masked_attention import MaskedAttention, attention_mask
from equigeo.mesh.nn.pooling import EdgePool, PoolLog, unpool
from equigeo.mesh.nn.residual_block import ResidualBlock, recompute_blocks
from equigeo.mesh.nn.segmenter import PrimalDualSegmenter, SegmenterConfig
from equigeo.mesh.repair.repair import LoadReport
from equigeo.mesh.simplify import simplify
from equigeo.mesh.subdivide import subdivide

__all__ = [
    "ClassifierConfig",
    "DualKind",
    "EdgePool",
    "LoadReport",
    "MaskedAttention",
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
    "attention_mask",
    "compile_package",
    "damage",
    "export_program",
    "load_mesh",
    "patches",
    "recompute_blocks",
    "simplify",
    "subdivide",
    "unpool",
]


def __dir__() -> list[str]:
    return __all__


_PRIVATE = {
    "Inspection": ("equigeo.mesh.nn.mesh_model", "PrimalDualClassifier.inspect"),
    "MeshAttributes": ("equigeo.mesh.repair.repair", "LoadReport.attributes"),
    "Patch": ("equigeo.mesh.geometry.patches", "patches"),
    "orient": ("equigeo.mesh.geometry.orient", "PrimalDualGraph.from_mesh"),
}
_OLD = {"checkpoint_blocks": Renamed("recompute_blocks", "0.3")}
__getattr__ = renamed(__name__, _OLD | private_names("0.3", _PRIVATE))
