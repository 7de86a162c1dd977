import math
from dataclasses import replace

import pytest
import torch
import trimesh

from equigeo.mesh import TriangleMesh, damage
from equigeo.mesh.damage import LARGEST, random_damage
from equigeo.mesh.geometry.half_edges import edge_pairs
from equigeo.mesh.repair.topology import MeshTopology
from equigeo.testing import tolerance
from tests.draws import generator
from tests.mesh import shapes
from tests.wrong_inputs import refused

SPHERE = shapes.icosphere(3)  # of 1280 faces


def measures(mesh):
    return trimesh.Trimesh(mesh.vertices.numpy(), mesh.faces.numpy(), process=False)


@pytest.mark.parametrize("share", [1 / 1280, 0.1, 0.9999])
def test_a_hole_is_one_disc_and_leaves_the_rest(share):
    numbered = TriangleMesh(SPHERE.vertices, SPHERE.faces, None, {"number": torch.arange(1280.0)})
    left = damage(numbered, hole=share, generator=generator())
    assert left.num_faces == max(1280 - round(1280 * share), 1)
    assert torch.equal(left.vertices, SPHERE.vertices)
    number = left.inputs["number"].long()
    assert torch.equal(left.faces, SPHERE.faces[number])
    gone = SPHERE.faces[sorted({*range(1280)} - {*number.tolist()})]
    assert MeshTopology.from_faces(gone.numpy()).components == 1
    if share < 0.5:  # what is left of a sphere is a disc, too
        found = MeshTopology.from_faces(left.faces.numpy())
        assert (found.components, found.euler) == (1, 1)


def test_a_hole_keeps_how_the_faces_at_a_fan_continue():
    # Three squares at one edge: the first continues in the second, the third ends there.
    corners = [
        [0, 0, 0],
        [0, 0, 1],
        [1, 0, 0],
        [1, 0, 1],
        [-1, 0, 0],
        [-1, 0, 1],
        [0, 1, 0],
        [0, 1, 1],
    ]
    faces = [[0, 1, 3], [0, 3, 2], [1, 0, 4], [1, 4, 5], [0, 1, 7], [0, 7, 6]]
    fan = TriangleMesh(
        torch.tensor(corners).double(),
        torch.tensor(faces),
        torch.tensor([[0, 6], [2, 3], [8, 9], [14, 15]]),
    )
    for seed in range(20):
        left = damage(fan, hole=1 / 3, generator=generator(seed))
        kept = [faces.index(face) for face in left.faces.tolist()]
        expected = [
            [3 * kept.index(a // 3) + a % 3, 3 * kept.index(b // 3) + b % 3]
            for a, b in edge_pairs(fan).tolist()
            if {a // 3, b // 3} <= {*kept}
        ]
        assert edge_pairs(left).tolist() == expected
    piece = edge_pairs(damage(fan, debris=0.1))[4:]
    assert torch.equal(piece - 18, edge_pairs(damage(SPHERE, debris=0.1))[1920:] - 3 * 1280)


def test_a_hole_continues_in_the_nearest_component():
    places = [4.0 * torch.eye(3)[0] * k for k in (2, 0, 1)]
    three = TriangleMesh(
        torch.cat([SPHERE.vertices + place for place in places]),
        torch.cat([SPHERE.faces + k * SPHERE.num_vertices for k in range(3)]),
    )
    for seed in range(6):
        left = damage(three, hole=0.5, generator=generator(seed))
        counts = (left.faces[:, 0] // SPHERE.num_vertices).bincount(minlength=3).tolist()
        assert (min(counts), sum(counts)) == (0, 1920)
        assert counts[2] < 1280  # of the sphere in the middle, which is next to both


def test_noise_moves_vertices_by_a_share_of_an_edge():
    noisy = damage(SPHERE, noise=0.2, generator=generator())
    assert torch.equal(noisy.faces, SPHERE.faces)
    edge = measures(SPHERE).edges_unique_length.mean()
    moves = (noisy.vertices - SPHERE.vertices) / edge
    deviation = 0.2 / math.sqrt(2 * moves.numel())  # of a standard deviation of so many numbers
    assert moves.std() == pytest.approx(0.2, abs=4 * deviation)


def test_debris_is_a_small_closed_piece_within_the_box():
    for seed in range(10):
        found = damage(SPHERE, debris=0.02, generator=generator(seed))
        assert torch.equal(found.faces[:-20], SPHERE.faces)
        piece = measures(TriangleMesh(found.vertices, found.faces[-20:]))
        piece.remove_unreferenced_vertices()
        assert piece.is_watertight
        assert piece.volume > 0
        center = torch.from_numpy(piece.vertices.mean(axis=0))
        away = torch.linalg.vector_norm(torch.from_numpy(piece.vertices) - center, dim=1)
        # a fiftieth of the diagonal of a box of side 2, halved
        assert away.numpy() == pytest.approx(0.02 * math.sqrt(3), rel=0.01)
        assert center.abs().max() < 1 + tolerance(torch.float64)["atol"]


def test_damage_is_relative_to_size_and_place():
    given = {"hole": 0.1, "noise": 0.3, "debris": 0.05}
    found = damage(SPHERE, **given, generator=generator())
    moved = TriangleMesh(8 * SPHERE.vertices + 3, SPHERE.faces)
    expected = 8 * found.vertices + 3
    assert torch.allclose(
        damage(moved, **given, generator=generator()).vertices,
        expected,
        **tolerance(torch.float64, 3),
    )
    # what is drawn for one kind does not depend on the others
    alone = damage(SPHERE, hole=0.1, generator=generator())
    assert torch.equal(found.faces[:-20], alone.faces)


def test_random_damage_reaches_every_kind_within_its_bounds():
    faces = [random_damage(SPHERE, generator(seed)).num_faces for seed in range(200)]
    assert min(faces) >= 1280 * (1 - LARGEST["hole"])
    assert 20 < faces.count(1280) < 90  # neither hole nor debris: a quarter
    assert max(faces) == 1300  # debris, no hole
    assert torch.equal(
        random_damage(SPHERE, generator(1)).vertices, random_damage(SPHERE, generator(1)).vertices
    )


def test_vertices_without_faces_do_not_count():
    more = TriangleMesh(torch.cat([SPHERE.vertices, torch.full((1, 3), 1e6)]), SPHERE.faces)
    found = damage(more, debris=0.02, generator=generator())
    expected = damage(SPHERE, debris=0.02, generator=generator())
    assert torch.equal(found.vertices[-12:], expected.vertices[-12:])


@pytest.mark.parametrize(("name", "value"), [
    ("hole", 1.0), ("hole", -0.1), ("hole", math.nan), ("noise", math.inf), ("noise", -1.0),
    ("debris", math.nan),
])  # fmt: skip
def test_amounts_are_in_range(name, value):
    refused(f"{name} must be in", damage, SPHERE, **{name: value})


@pytest.mark.parametrize("name", ["hole", "noise", "debris", "generator"])
@pytest.mark.parametrize("value", ["a", torch.tensor([0.1, 0.2])])
def test_arguments_of_other_types_are_named(name, value):
    refused(f"{name} must be a", damage, SPHERE, error=TypeError, **{name: value})


def test_vertices_may_require_gradients():
    vertices = SPHERE.vertices.clone().requires_grad_()
    found = damage(TriangleMesh(vertices, SPHERE.faces), hole=0.1, noise=0.1, debris=0.1)
    found.vertices.sum().backward()
    assert torch.equal(vertices.grad, torch.ones_like(vertices))


def test_a_mesh_without_faces_stays():
    empty = replace(SPHERE, faces=SPHERE.faces[:0])
    assert damage(empty, hole=0.5, noise=1.0, debris=0.1).num_faces == 0
