"""Means of faces at edges, vertices and meshes, against loops over them."""

import pytest
import torch

from equigeo.mesh import DualKind, PrimalDualGraph, TriangleMesh
from equigeo.mesh.geometry.surface import Surface
from equigeo.mesh.models.elements import adjacency_means, edge_faces, face_to_element_means
from tests.mesh import shapes

SHAPES = {
    "closed": shapes.lumpy(shapes.icosphere(1), seed=3),
    "with a boundary": shapes.bowl(),
    "a pillow": shapes.pillow(),
    "two isolated faces": shapes.two_isolated(),
}


def _faces_by_edge(faces):
    found = {}
    for face, corners in enumerate(faces.tolist()):
        for k in range(3):
            edge = tuple(sorted((corners[k], corners[(k + 1) % 3])))
            found.setdefault(edge, []).append(face)
    return found


def _area(mesh):
    one, two, three = mesh.vertices[mesh.faces].unbind(1)
    return torch.linalg.cross(two - one, three - one).norm(dim=1)


def _mean(x, rows, weights):
    if not rows:
        return torch.zeros_like(x[0])
    rows = torch.tensor(rows)
    return (x[rows] * weights[rows, None]).sum(0) / weights[rows].sum()


@pytest.mark.parametrize("name", sorted(SHAPES))
@pytest.mark.parametrize("weighted", [False, True])
def test_means_are_those_of_loops(name, weighted):
    mesh = SHAPES[name]
    graph = PrimalDualGraph.from_mesh(mesh, dtype=torch.float64)
    x = torch.randn(mesh.num_faces, 3, dtype=torch.float64)
    weights = _area(mesh) if weighted else torch.ones(mesh.num_faces, dtype=torch.float64)
    at_edge = _faces_by_edge(mesh.faces)
    at_vertex = [[] for _ in range(mesh.num_vertices)]
    for face, corners in enumerate(mesh.faces.tolist()):
        for vertex in corners:
            at_vertex[vertex].append(face)
    expected = {
        "faces": x,
        "edges": torch.stack([_mean(x, at_edge[edge], weights) for edge in sorted(at_edge)]),
        "vertices": torch.stack([_mean(x, rows, weights) for rows in at_vertex]),
        "mesh": _mean(x, [*range(mesh.num_faces)], weights)[None],
    }
    for elements, wanted in expected.items():
        found = face_to_element_means(graph, x, elements, area_weighted=weighted)
        torch.testing.assert_close(found, wanted)


def test_a_vertex_without_faces_gets_zero():
    mesh = TriangleMesh(torch.eye(4, 3), torch.tensor([[0, 1, 2]]))
    graph = PrimalDualGraph.from_mesh(mesh)
    found = face_to_element_means(graph, torch.ones(1, 2), "vertices")
    assert found.tolist() == [[1, 1]] * 3 + [[0, 0]]


def test_edges_that_were_cut_are_two():
    """Four faces at one edge, of which two and two continue each other."""
    vertices = torch.tensor([[0.0, 0, 0], [0, 0, 1], [1, 0, 0], [0, 1, 0], [-1, 0, 0], [0, -1, 0]])
    faces = torch.tensor([[0, 1, 2], [1, 0, 3], [0, 1, 4], [1, 0, 5]])
    mesh = TriangleMesh(vertices, faces, torch.tensor([[0, 3], [6, 9]]))
    found = edge_faces(Surface.from_mesh(mesh)).tolist()
    assert found[:2] == [[0, 1], [2, 3]]
    assert len(found) == 2 + 8


def test_graphs_without_a_surface_have_no_edges():
    graph = PrimalDualGraph.from_adjacency(
        torch.tensor([[0, 1]]), DualKind.SINGLE, torch.zeros(2, dtype=torch.int64), 1
    )
    x = torch.ones(2, 3)
    assert face_to_element_means(graph, x, "mesh").tolist() == [[1, 1, 1]]
    for elements in ("edges", "vertices"):
        with pytest.raises(ValueError, match=f"no {elements}"):
            face_to_element_means(graph, x, elements)
    with pytest.raises(ValueError, match="no areas"):
        face_to_element_means(graph, x, "mesh", area_weighted=True)


@pytest.mark.parametrize("name", sorted(SHAPES))
@pytest.mark.parametrize("kind", list(DualKind))
def test_means_of_adjacencies_are_those_of_loops(name, kind):
    graph = PrimalDualGraph.from_mesh(SHAPES[name], kind)
    x = torch.randn(graph.num_dual, 2)
    found = adjacency_means(graph.with_features(graph.x_primal, x))
    per_edge = x.reshape(-1, kind.nodes_per_edge, 2).mean(1)
    for face in range(graph.num_primal):
        rows = (graph.undirected == face).any(1)
        wanted = per_edge[rows].mean(0) if bool(rows.any()) else torch.zeros(2)
        torch.testing.assert_close(found[face], wanted)
