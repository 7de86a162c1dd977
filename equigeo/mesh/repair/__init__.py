"""Repair of meshes as files hold them: from a ``FileMesh`` to a ``RepairedMesh``.

Every step is vectorised and works on arrays. ``repair_mesh`` runs them in a fixed order, counts
what each does, and in strict mode raises at the first defect instead.
"""

from equigeo.mesh.repair.mesh_topology import MeshTopology
from equigeo.mesh.repair.repair_mesh import repair_mesh
from equigeo.mesh.repair.repaired_mesh import RepairCounts, RepairedMesh

__all__ = ["MeshTopology", "RepairCounts", "RepairedMesh", "repair_mesh"]


def __dir__() -> list[str]:
    return __all__
