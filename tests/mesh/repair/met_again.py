"""A mesh whose faces are told apart by pairs alone."""

import numpy as np

from equigeo.mesh import TriangleMesh
from equigeo.mesh.io.file_mesh import FileMesh
from equigeo.mesh.repair import RepairedMesh, repair_mesh

# Around each end of the edge from 0 to 1, faces lead from one sheet to the other, so that neither
# end is split.
_POINTS = [
    *([0, 0, 0], [0, 0, 1], [1, 0.3, 0.5], [1, -0.3, 0.5], [-1, 0.3, 0.5], [-1, -0.3, 0.5]),
    *([1, 0, -0.5], [1, 0, 1.5]),
]
_SHEETS = [[0, 1, 2], [1, 0, 3], [0, 1, 4], [1, 0, 5]]
_AROUND = [[0, 2, 6], [0, 6, 3], [1, 7, 2], [1, 3, 7]]


def repaired_again() -> RepairedMesh:
    """Eight faces, four of which run along one edge: 0 continues 2, and 1 continues 3."""
    faces = np.array(_SHEETS + _AROUND)
    return repair_mesh(FileMesh(np.array(_POINTS, float), faces.ravel(), np.full(8, 3)))


def met_again() -> TriangleMesh:
    """The same as a mesh."""
    repaired = repaired_again()
    return TriangleMesh(repaired.vertices, repaired.faces, repaired.pairs)
