"""Repair of meshes as files hold them: one step per file, each vectorised and each on arrays.

``repair_mesh`` runs the steps in a fixed order, counts what each does, and in strict mode raises
at the first defect instead.
"""

from equigeo.mesh.repair.mesh_topology import MeshTopology
from equigeo.mesh.repair.repair_counts import RepairCounts
from equigeo.mesh.repair.repair_mesh import RepairedMesh, repair_mesh

__all__ = ["MeshTopology", "RepairCounts", "RepairedMesh", "repair_mesh"]


def __dir__() -> list[str]:
    return __all__
