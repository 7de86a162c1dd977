"""Repair of meshes as files hold them: from a ``FileMesh`` to a ``RepairedMesh``."""

from equigeo.mesh.repair.repair import RepairCounts, RepairedMesh, repair_mesh
from equigeo.mesh.repair.topology import MeshTopology

__all__ = ["MeshTopology", "RepairCounts", "RepairedMesh", "repair_mesh"]


def __dir__() -> list[str]:
    return __all__
