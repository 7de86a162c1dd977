"""Repair of meshes as files hold them: from a ``FileMesh`` to a ``RepairedMesh``."""

from equigeo.mesh.repair.mesh_topology import MeshTopology
from equigeo.mesh.repair.repair_mesh import repair_mesh
from equigeo.mesh.repair.repaired_mesh import RepairCounts, RepairedMesh

__all__ = ["MeshTopology", "RepairCounts", "RepairedMesh", "repair_mesh"]


def __dir__() -> list[str]:
    return __all__
