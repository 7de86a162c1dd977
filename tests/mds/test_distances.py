"""Embeddings of distances of all kinds, and landmarks."""

import math

import numpy as np
import pytest
import torch
from scipy.spatial.transform import Rotation
from torch.testing import assert_close

from equigeo import mds
from equigeo.mds.landmarks import farthest_landmarks
from equigeo.testing import tolerance
from tests.mds.clouds import distances, generator, generic, motions
from tests.mesh import shapes
from tests.wrong_inputs import refused

# Thirty points, and twenty for the largest eigenvalue over a gap.
EXACT = {"rtol": 0.0, "atol": tolerance(torch.float64, terms=30, condition=20)["atol"]}


def hops(edges):
    return mds.graph_distances(torch.tensor(edges).mT)


def cycle(n):
    return hops([(i, (i + 1) % n) for i in range(n)])


STAR = [(0, 1), (0, 2), (0, 3)]


def close(got, want, atol=1e-12):
    assert_close(got, torch.tensor(want, dtype=torch.float64), rtol=0, atol=atol)


def test_points_of_space_are_recovered():
    x = generic(30)
    found = mds.distance_embed(distances(x))
    assert found.y.shape == (30, 3)
    assert_close(found.y, mds.embed(x).y, **EXACT)
    assert float(found.negative) < EXACT["atol"]
    assert float(found.stress) < EXACT["atol"]
    close(found.eigvals[3:], [0.0] * 27, 1e-12 * float(found.eigvals[0]))
    squared = mds.distance_embed(distances(x).square(), squared=True)
    assert_close(squared.y, found.y, **EXACT)
    batch = torch.stack([distances(x), distances(generic(30, seed=2))])
    assert_close(mds.distance_embed(batch).y[0], found.y, **EXACT)
    padded = mds.distance_embed(distances(x), 40)
    assert padded.y.shape[0] == 30
    assert not padded.y[:, 3:].abs().gt(1e-6).any()


@pytest.mark.parametrize("n", [4, 5, 6, 9])
def test_cycles(n):
    want = [
        -0.5 * sum(min(j, n - j) ** 2 * math.cos(2 * math.pi * j * k / n) for j in range(n))
        for k in range(1, n)
    ]
    found = mds.distance_embed(cycle(n))
    close(found.eigvals, sorted([*want, 0.0], reverse=True))
    if n == 6:
        close(found.eigvals, [6.0, 6, 1.5, 0, -2, -2])


def test_square_and_star():
    found = mds.distance_embed(cycle(4), 2)
    close(found.eigvals, [2.0, 2, 0, -1])
    close(distances(found.y)[0], [0, math.sqrt(2), 2, math.sqrt(2)])
    close(mds.distance_embed(cycle(4)).negative, 0.2)
    found = mds.distance_embed(hops(STAR), 2)
    close(found.eigvals, [2.0, 2, 0, -0.25])
    close(distances(found.y)[0, 1:], [2 / math.sqrt(3)] * 3)


def test_corrections_make_distances_euclidean():
    root = math.sqrt(2)
    for matrix, lingoes, cailliez in (
        (cycle(4), 1.0, root),
        (hops(STAR), 0.25, (math.sqrt(3) - 1) / 2),
    ):
        for correction, constant in (("lingoes", lingoes), ("cailliez", cailliez)):
            found = mds.distance_embed(matrix, correction=correction)
            close(found.constant, constant, 1e-7)
            assert float(found.eigvals[-1]) > -1e-7
            off = ~torch.eye(len(matrix), dtype=torch.bool)
            want = matrix + constant
            if correction == "lingoes":
                want = (matrix.square() + 2 * constant).sqrt()
            # The constant of Cailliez has half of the digits at worst.
            assert_close(distances(found.y)[off], want[off], rtol=0, atol=1e-7)
    close(mds.distance_embed(cycle(4), correction="lingoes").eigvals, [3.0, 3, 0, 0])
    largest = [3 + 2 * root] * 2
    close(mds.distance_embed(cycle(4), correction="cailliez").eigvals, [*largest, 0, 0], 1e-6)
    euclidean = distances(generic(9))
    for correction in ("lingoes", "cailliez"):
        assert not mds.distance_embed(euclidean, correction=correction).constant.any()


@pytest.mark.parametrize("matrix", [cycle(4), cycle(7), hops(STAR)], ids=["C4", "C7", "star"])
def test_pseudo_euclidean_axes_reproduce_everything(matrix):
    found = mds.distance_embed(matrix, correction="pseudo")
    assert (found.signature < 0).any()
    differences = found.y[:, None] - found.y
    square = (differences.square() * found.signature).sum(-1)
    assert_close(square, matrix.square(), **tolerance(torch.float64, terms=7))
    # Squares of the diagonal are zero to rounding, distances are the roots.
    assert float(found.stress) < 1e-7


def test_few_landmarks_reproduce_all_distances():
    x = generic(50)
    want = distances(x)
    close = tolerance(torch.float64, terms=50, condition=128)  # of four landmarks, squared
    for count in (4, 8):
        chosen = torch.randperm(50, generator=generator(count))[:count]
        found = mds.landmark_embed(want[chosen][:, chosen], want[:, chosen])
        assert_close(distances(found.y), want, **close)
        assert_close(found.y, mds.embed(x).y, **close)
        assert float(found.stress) < EXACT["atol"]
    by_number = mds.distance_embed(want, landmarks=6)
    assert_close(by_number.y, mds.embed(x).y, **close)
    assert len(by_number.landmarks) == 6
    order = torch.randperm(50, generator=generator(1))
    again = mds.distance_embed(want[order][:, order], landmarks=6)
    assert torch.equal(order[again.landmarks], by_number.landmarks)
    few = distances(generic(10))
    found = mds.landmark_embed(few[:5, :5], few[:, :5], 6)  # more coordinates than the rank
    assert found.y.shape == (10, 6)
    close = tolerance(torch.float64, terms=10, condition=256)  # of five landmarks, squared
    assert_close(distances(found.y), few, **close)


@pytest.mark.parametrize("correction", ["clip", "lingoes", "cailliez", "pseudo"])
def test_all_points_as_landmarks_are_the_whole(correction):
    matrix = distances(generic(12)) + 0.5 * (1 - torch.eye(12).double())
    matrix = matrix + 0.3 * cycle(12)
    whole = mds.distance_embed(matrix, correction=correction)
    nystrom = mds.landmark_embed(matrix, matrix, correction=correction)
    # The largest eigenvalue is up to 509 times as large as a gap.
    close = tolerance(torch.float64, terms=12, condition=512)
    assert_close(nystrom.eigvals, whole.eigvals, **close)
    k = min(whole.y.shape[1], nystrom.y.shape[1])
    assert_close(nystrom.y[:, :k], whole.y[:, :k], **close)
    assert_close(nystrom.negative, whole.negative, **EXACT)


def test_bad_matrices():
    good = distances(generic(5))
    bad = {
        "be symmetric": good + torch.triu(good),
        "not be negative": -good,
        "be zero on the diagonal": good + torch.eye(5).double(),
        "be finite": good.clone().fill_diagonal_(math.nan),
        r"points, points\)": good[:3],
    }
    for message, matrix in bad.items():
        refused(message, mds.distance_embed, matrix)
    unchecked = bad["be zero on the diagonal"]
    for landmarks in (None, 4):
        assert len(mds.distance_embed(unchecked, landmarks=landmarks, check=False).y) == 5
        refused("on the diagonal", mds.distance_embed, unchecked, landmarks=landmarks)
    refused("be finite", mds.distance_embed, good.where(good < good.max(), math.inf))
    slightly = good * (1 + 1e-8 * torch.triu(torch.ones(5, 5)).double())
    # The change, times the largest eigenvalue over a gap.
    near = 1e-8 * 20
    changed, unchanged = (mds.distance_embed(matrix, 3).y for matrix in (slightly, good))
    assert_close(changed, unchanged, rtol=0, atol=near)
    refused("correction must be one of", mds.distance_embed, good, correction="nothing")
    refused("landmarks, landmarks", mds.landmark_embed, good, good[:, :3])
    refused("finite and not negative", mds.landmark_embed, good, -good)
    message = "dim must not be negative, got -1"
    for landmarks in (None, 4):
        refused(message, mds.distance_embed, good, -1, landmarks=landmarks)
    refused(message, mds.landmark_embed, good[:4, :4], good[:, :4], -1)
    assert mds.distance_embed(torch.zeros(0, 0)).y.shape == (0, 0)
    assert not mds.distance_embed(torch.zeros(1, 1), 2).y.any()


def test_resistances_are_euclidean():
    edges = torch.tensor([(0, 1), (1, 2), (2, 3), (3, 0), (0, 2)]).mT
    found = mds.distance_embed(mds.graph_distances(edges, kind="resistance"))
    assert float(found.negative) < EXACT["atol"]
    laplacian = torch.zeros(4, 4).double()
    for i, j in edges.mT.tolist():
        for a, b in ((i, j), (j, i)):
            laplacian[a, a] += 1
            laplacian[a, b] -= 1
    assert_close(found.y @ found.y.mT, torch.linalg.pinv(laplacian), **EXACT)
    series, parallel = (
        mds.graph_distances(torch.tensor(ends), torch.tensor(lengths), kind="resistance")
        for ends, lengths in (([[0, 1], [1, 2]], [2.0, 3.0]), ([[0, 0], [1, 1]], [2.0, 2.0]))
    )
    close(series[0].square(), [0.0, 2, 5])
    close(parallel[0, 1].square(), 1.0)


@pytest.mark.parametrize("kind", ["shortest", "resistance"])
def test_edges_listed_in_both_directions_are_those_listed_in_one(kind):
    edges = torch.tensor([(0, 1), (1, 2), (2, 3), (3, 0), (0, 2), (0, 2)]).mT
    lengths = torch.tensor([1.0, 2, 3, 4, 5, 6])
    want = mds.graph_distances(edges, lengths, kind=kind)
    both = torch.cat([edges, edges.flip(0)], dim=1)
    order = torch.randperm(12, generator=torch.Generator().manual_seed(0))
    got = mds.graph_distances(both[:, order], lengths.repeat(2)[order], kind=kind)
    assert_close(got, want, **EXACT)
    lopsided = mds.graph_distances(both, torch.cat([lengths, 2 * lengths]), kind=kind)
    if kind == "resistance":  # other lengths are other edges
        assert_close(lopsided, want * (2 / 3) ** 0.5, **EXACT)


def test_wrong_graphs_raise_and_parallel_edges_are_one():
    edges = torch.tensor([[0, 2], [1, 3]])
    for kind in ("shortest", "resistance"):
        refused(r"not connected.*\[2, 3\]", mds.graph_distances, edges, kind=kind)
    refused("edge_index must be from", mds.graph_distances, edges, num_nodes=3)
    refused("finite and positive", mds.graph_distances, edges, torch.tensor([1.0, -1.0]))
    refused("kind must be", mds.graph_distances, edges, kind="nothing")
    refused("int64", mds.graph_distances, edges.int(), error=TypeError)
    message = "the number of nodes must be from 0 to 65536, got 10"
    refused(message, mds.graph_distances, torch.full((2, 1), 2**40))
    parallel = torch.tensor([[0, 1, 0], [1, 0, 1]]), torch.tensor([3.0, 2.0, 5.0])
    assert mds.graph_distances(*parallel)[0, 1] == 2


def grid(rows, columns, width=1.0, height=1.0):
    """A rectangle of triangles."""
    u = torch.linspace(0, width, columns, dtype=torch.float64)
    v = torch.linspace(0, height, rows, dtype=torch.float64)
    corners = torch.cartesian_prod(v, u).flip(-1)
    number = torch.arange(rows * columns).view(rows, columns)
    a, b, c, d = number[:-1, :-1], number[:-1, 1:], number[1:, 1:], number[1:, :-1]
    faces = torch.cat([torch.stack(t, -1).view(-1, 3) for t in ((a, b, c), (a, c, d))])
    return corners, faces


def test_bending_does_not_change_a_canonical_form():
    corners, faces = grid(7, 16, 3.0, 1.0)
    corners = corners + 0.02 * torch.sin(7 * corners.flip(-1))  # no symmetry
    flat = torch.nn.functional.pad(corners, (0, 1))
    angle = corners[:, 0] / 1.5
    rolled = torch.stack([1.5 * angle.sin(), corners[:, 1], 1.5 * angle.cos()], -1)
    straight = distances(corners).numpy()  # lines of the flat rectangle, for the bent one too

    def embedded(vertices, **options):
        return mds.geodesic_embed(vertices, faces, dim=2, landmarks=20, **options)

    found = [embedded(v, distances=lambda *_: straight.__getitem__) for v in (flat, rolled)]
    assert_close(found[0].y, found[1].y, **EXACT)
    assert_close(distances(found[0].y), distances(corners), **EXACT)
    assert float(found[1].stress) < EXACT["atol"]
    for embedding in map(embedded, (flat, rolled)):  # along edges
        error = (distances(embedding.y) - distances(corners)).abs().max()
        assert float(error) < 0.2
        assert 1e-4 < float(embedding.stress) < 0.1


def test_no_rigid_motion_changes_a_canonical_form():
    corners, faces = grid(6, 9, 2.0, 1.0)
    corners = corners + 0.02 * torch.rand(54, 2, generator=generator(), dtype=torch.float64)
    height = 0.4 * (2 * corners[:, :1]).sin() + 0.3 * corners[:, 1:].square()
    vertices = torch.cat([corners, height], -1)
    want = mds.geodesic_embed(vertices, faces, landmarks=15)
    for g in motions(3):
        moved = mds.geodesic_embed(vertices @ g.mT + 1, faces, landmarks=15)
        assert torch.equal(moved.landmarks, want.landmarks)
        assert_close(moved.y, want.y, **EXACT)
    turn = torch.tensor(Rotation.from_rotvec([0.1, 0.2, 0.3]).as_matrix())
    assert_close(mds.geodesic_embed(vertices @ turn.mT, faces, landmarks=15).stress, want.stress)


def test_paths_cross_pairs_of_triangles_and_wrong_surfaces_raise():
    corners, faces = grid(2, 2)
    vertices = torch.nn.functional.pad(corners, (0, 1))
    found = mds.geodesic_embed(vertices, faces, dim=2, landmarks=4)
    assert_close(distances(found.y), distances(corners), **EXACT)
    two = torch.cat([vertices, vertices]), torch.cat([faces, faces + 4])
    refused("not connected", mds.geodesic_embed, *two)
    refused("vertices must be", mds.geodesic_embed, corners, faces)
    refused("faces must be", mds.geodesic_embed, vertices, faces.double())
    refused("from 0 to 3", mds.geodesic_embed, vertices, faces + 1)
    refused("finite", mds.geodesic_embed, vertices * math.nan, faces)


def test_errors_of_known_maps():
    sphere = shapes.icosphere(2)
    vertices, faces = sphere.vertices, sphere.faces
    number = torch.arange(len(vertices))
    found = torch.randperm(len(vertices), generator=generator())
    assert not mds.geodesic_errors(vertices, faces, number, number).any()
    angles = (vertices @ vertices.mT).clamp(-1, 1).acos()  # of great circles
    want = angles[found, number] / math.sqrt(4 * math.pi)
    errors = mds.geodesic_errors(vertices, faces, found, number)
    ratio = errors[want > 0] / want[want > 0]
    assert 0.99 < float(ratio.min()) < float(ratio.max()) < 1.08  # paths along edges
    mean = math.pi / 2 / math.sqrt(4 * math.pi)  # of all pairs of points
    assert float(errors.mean()) == pytest.approx(mean, rel=0.08)  # as far as the longest path
    turned = mds.geodesic_errors(3 * vertices @ motions(1)[0].mT + 1, faces, found, number)
    assert_close(turned, errors, **EXACT)
    both = torch.stack([number, found], 1)
    assert not mds.geodesic_errors(vertices, faces, found, both).any()
    one_way, back = (mds.geodesic_errors(vertices, faces, found, x[:, None]) for x in both.T)
    assert torch.equal(one_way, errors)
    assert not back.any()
    exact = mds.geodesic_errors(
        vertices, faces, found, number, distances=lambda *_: angles.numpy().__getitem__
    )
    assert_close(exact, want, rtol=0.02, atol=0.0)  # a polyhedron has less area than its sphere


def test_errors_of_wrong_maps_are_infinite_or_raise():
    corners, faces = grid(2, 2)
    vertices = torch.nn.functional.pad(corners, (0, 1))
    two = torch.cat([vertices, vertices]), torch.cat([faces, faces + 4])
    found = torch.tensor([0, 0])
    errors = mds.geodesic_errors(*two, found, torch.tensor([1, 5]))
    assert errors.tolist() == pytest.approx([1 / 2**0.5, math.inf])
    assert mds.geodesic_errors(*two, found[:0], found[:0]).shape == (0,)
    wrong = [
        (r"found must be \(points,\), got \(1, 2\)", vertices, found[None], found),
        (
            r"truth must be \(2,\) or \(2, alternatives\), got \(1, 2\)",
            vertices,
            found,
            found[None],
        ),
        (r"truth must be .* got \(2, 0\)", vertices, found, found[:, None][:, :0]),
        ("found must hold vertices from 0 to 3", vertices, found + 4, found),
        ("truth must hold vertices from 0 to 3", vertices, found, found - 1),
        ("must have an area", vertices * 0, found, found),
    ]
    for message, place, mapped, truth in wrong:
        refused(message, mds.geodesic_errors, place, faces, mapped, truth)


def test_geodesics_of_a_library():
    potpourri3d = pytest.importorskip("potpourri3d", reason="potpourri3d is not installed")

    def heat_distances(vertices, faces):  # as documented
        solver = potpourri3d.MeshHeatMethodDistanceSolver(vertices, faces)
        return lambda vertex: np.maximum(solver.compute_distance(vertex), 0.0)

    corners, faces = grid(12, 24, 2.0, 1.0)
    vertices = torch.nn.functional.pad(corners, (0, 1))
    found = mds.geodesic_embed(vertices, faces, dim=2, landmarks=20, distances=heat_distances)
    assert float(found.stress) < 0.05
    want = distances(corners)
    assert_close(distances(found.y), want, rtol=0, atol=0.1 * float(want.max()))


def test_arrays_are_distances_and_surfaces():
    x = generic(6)
    distances = torch.cdist(x, x)
    want = mds.distance_embed(distances, 3)
    assert torch.equal(mds.distance_embed(distances.numpy(), 3).y, want.y)
    near = mds.landmark_embed(distances[:4, :4].numpy(), distances[:, :4].numpy(), 3)
    assert torch.equal(near.y, mds.landmark_embed(distances[:4, :4], distances[:, :4], 3).y)
    faces = torch.tensor([[0, 1, 2], [0, 2, 3]])
    flat = torch.tensor([[0.0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0]])
    found = mds.geodesic_embed(flat.numpy(), faces.numpy().astype("uint32"), dim=2)
    assert torch.equal(found.y, mds.geodesic_embed(flat, faces, dim=2).y)
    edges = torch.tensor([[0, 1], [1, 2]])
    lengths = torch.tensor([1.0, 2.0])
    arrays = mds.graph_distances(edges.numpy().astype("int32"), lengths.numpy())
    assert torch.equal(arrays, mds.graph_distances(edges, lengths))


@pytest.mark.parametrize("scale", [1e-200, 1e-160, 1e150, 1e160, 1e200])
@pytest.mark.parametrize("correction", ["clip", "lingoes", "cailliez", "pseudo"])
def test_distances_of_any_scale_are_embedded(scale, correction):
    x = torch.randn(8, 3, dtype=torch.float64, generator=generator(0))
    distances = torch.cdist(x, x)
    distances[0, 1:] *= 1.5  # not Euclidean, so that corrections act
    distances[1:, 0] = distances[0, 1:]
    near = tolerance(torch.float64, 64)
    for chosen in ({}, {"landmarks": 5}):
        plain = mds.distance_embed(distances, 3, correction=correction, **chosen)
        found = mds.distance_embed(distances * scale, 3, correction=correction, **chosen)
        assert_close(found.y / scale, plain.y, **near)
        assert_close(found.stress, plain.stress, **near)
        if correction == "cailliez":
            assert_close(found.constant / scale, plain.constant, **near)


def test_powers_of_two_change_no_bit_and_zeros_stay():
    x = torch.randn(2, 6, 3, dtype=torch.float64, generator=generator(0))
    both = torch.cdist(x, x) * torch.tensor([1.0, 2.0**-700], dtype=torch.float64)[:, None, None]
    alone = mds.distance_embed(torch.cdist(x, x), 3)
    found = mds.distance_embed(both, 3)
    assert torch.equal(found.y[0], alone.y[0])
    assert torch.equal(found.y[1] * 2.0**700, alone.y[1])
    nothing = mds.distance_embed(torch.zeros(4, 4), 2)
    assert torch.equal(nothing.y, torch.zeros(4, 2, dtype=torch.float64))


def test_landmarks_are_farthest_from_those_before_and_measured_once():
    steps = torch.arange(8)[:, None] - torch.arange(8)
    ring, asked = torch.minimum(steps % 8, -steps % 8), []

    def measure(i):
        asked.append(i)
        return ring[i].float()

    chosen, distances = farthest_landmarks(measure, 4, start=1)
    assert chosen.tolist() == asked == [1, 5, 3, 7]
    assert distances.dtype == torch.float64
    assert torch.equal(distances, ring[chosen].double())
    chosen, distances = farthest_landmarks(lambda i: ring[i], 99, start=0)
    assert sorted(chosen.tolist()) == list(range(8))
    assert distances.shape == (8, 8)
    chosen, _ = farthest_landmarks(lambda i: torch.zeros(3), 3, start=2)
    assert chosen.tolist() == [2, 0, 1]  # points that coincide
    refused("at least one landmark, got 0", farthest_landmarks, measure, 0, start=0)
