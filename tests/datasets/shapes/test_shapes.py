import itertools
import logging
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import trimesh
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import sparse
from scipy.optimize import nnls
from scipy.sparse.csgraph import connected_components

from equigeo.datasets import (
    articulated_pairs,
    articulated_parts,
    articulated_shapes,
    split_indices,
)
from equigeo.datasets.shapes.articulated import SHAPE_TEMPLATES, generate_instance
from equigeo.datasets.shapes.pairs import corresponding
from equigeo.datasets.shapes.parts import (
    PART_TEMPLATES,
    PARTS,
    bone_parts,
    nearest_bones,
    part_labels,
)
from equigeo.datasets.shapes.remeshing import (
    closest_on_triangles,
    marching_tetrahedra,
    simplify_surface,
)
from equigeo.datasets.shapes.skeleton import Limb, ShapeTemplate, Skeleton
from equigeo.datasets.shapes.surface import pose_surface, rest_surface, surface_defect
from equigeo.mds import geodesic_errors
from equigeo.testing import tolerance
from tests.wrong_inputs import refused

_BY_NAME = {template.name: template for template in SHAPE_TEMPLATES}


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("shapes")


@pytest.fixture(scope="module")
def shapes(cache):
    return articulated_shapes(per_class=2, cache=cache)


def _same(first, second):
    pairs = zip(first.meshes, second.meshes, first.labels, second.labels, strict=True)
    return all(
        torch.equal(a.vertices, b.vertices) and torch.equal(a.faces, b.faces) and torch.equal(x, y)
        for a, b, x, y in pairs
    )


def test_classes_are_balanced_and_every_mesh_is_a_sound_surface(shapes):
    assert shapes.num_classes >= 12
    assert torch.bincount(shapes.labels).tolist() == [2] * shapes.num_classes
    assert shapes.classes == tuple(sorted(shapes.classes))
    assert shapes.in_train.tolist() == [True, False] * shapes.num_classes
    assert len(set(shapes.names)) == len(shapes)
    genus = {template.name: template.genus for template in SHAPE_TEMPLATES}
    for mesh, label in zip(shapes.meshes, shapes.labels.tolist(), strict=True):
        assert mesh.num_faces == 500
        handles = genus[shapes.classes[label]]
        assert mesh.num_vertices == 252 - 2 * handles
        assert surface_defect(mesh.vertices.numpy(), mesh.faces.numpy(), handles) is None
    for k in range(0, len(shapes), 2):
        first, second = shapes.meshes[k : k + 2]
        assert not torch.equal(first.faces, second.faces)
        assert not torch.allclose(first.vertices.std(0), second.vertices.std(0))


def test_other_numbers_of_faces_are_exact_and_a_seed_repeats_to_the_bit(shapes):
    for faces in (200, 1000):
        shape = generate_instance(_BY_NAME["scissors"], faces, seed=0, instance=0)
        assert len(shape.faces) == faces
        assert surface_defect(shape.vertices, shape.faces, genus=2) is None
    here, other = (generate_instance(SHAPE_TEMPLATES[-1], 500, seed, 1) for seed in (0, 1))
    np.testing.assert_array_equal(here.vertices, shapes.meshes[-1].vertices.numpy())
    assert not np.array_equal(here.vertices, other.vertices)


@pytest.mark.full
def test_another_process_gives_the_same_bits():
    here = generate_instance(SHAPE_TEMPLATES[-1], 500, 0, 1)
    code = (
        "import sys; from equigeo.datasets.shapes.articulated import generate_instance as g;"
        "from equigeo.datasets.shapes.articulated import SHAPE_TEMPLATES as t;"
        "x = g(t[-1], 500, 0, 1); "
        "sys.stdout.buffer.write(x.vertices.tobytes() + x.faces.tobytes())"
    )
    there = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout
    assert there == here.vertices.tobytes() + here.faces.tobytes()


@pytest.fixture
def calls(monkeypatch):
    """Replace the generator by a fast one, and list what it is asked for."""
    asked = []

    def generate(template, faces, seed, instance):
        asked.append((template.name, instance))
        generator = np.random.default_rng([seed, len(template.name), instance])
        triangles = generator.integers(0, 250, (faces, 3))
        return SimpleNamespace(vertices=generator.normal(size=(250, 3)), faces=triangles)

    # the package's attribute of this name is the function
    module = sys.modules["equigeo.datasets.shapes.articulated"]
    monkeypatch.setattr(module, "generate_instance", generate)
    return asked


def test_a_second_or_simultaneous_call_reads_the_cache_and_gives_the_same_bits(calls, tmp_path):
    first = articulated_shapes(per_class=3, cache=tmp_path)
    number = len(calls)
    assert number == 3 * first.num_classes
    assert _same(articulated_shapes(per_class=3, cache=tmp_path), first)
    assert len(calls) == number
    assert [p.suffix for p in tmp_path.iterdir()] == [".npz"]  # nothing unfinished is left
    with ThreadPoolExecutor(4) as pool:
        runs = [pool.submit(articulated_shapes, per_class=4, cache=tmp_path) for _ in range(8)]
        results = [run.result() for run in runs]
    assert all(_same(result, results[0]) for result in results)
    assert len(list(tmp_path.iterdir())) == 2


def test_other_parameters_are_another_cache_entry(calls, tmp_path):
    for change in ({}, {"seed": 1}, {"per_class": 2}, {"faces": 200}):
        number, entries = len(calls), len(list(tmp_path.iterdir()))
        articulated_shapes(**{"per_class": 3, "cache": tmp_path} | change)
        assert len(calls) > number
        assert len(list(tmp_path.iterdir())) == entries + 1


def test_a_damaged_cache_is_replaced(calls, tmp_path, caplog):
    shapes = articulated_shapes(per_class=2, cache=tmp_path)
    (path,) = tmp_path.iterdir()
    raw = path.read_bytes()
    with np.load(path) as stored:
        arrays = dict(stored)
    middle = len(raw) // 2
    flipped = raw[:middle] + bytes([raw[middle] ^ 255]) + raw[middle + 1 :]
    objects = arrays | {"vertices": np.array([{}], dtype=object)}
    indices = arrays | {"faces": arrays["faces"] + 1000}
    for damage in (b"", raw[:middle], flipped, objects, {"vertices": np.zeros((4, 3))}, indices):
        if isinstance(damage, bytes):
            path.write_bytes(damage)
        else:
            np.savez(path, **damage)
        caplog.clear()
        number = len(calls)
        with caplog.at_level(logging.WARNING):
            assert _same(articulated_shapes(per_class=2, cache=tmp_path), shapes)
        assert "damaged" in caplog.text
        assert _same(articulated_shapes(per_class=2, cache=tmp_path), shapes)
        assert len(calls) == number + len(shapes)


def test_a_cache_that_cannot_be_written_only_costs_time(calls, tmp_path, caplog, monkeypatch):
    occupied = tmp_path / "file"
    occupied.touch()
    with caplog.at_level(logging.WARNING):
        assert len(articulated_shapes(per_class=2, cache=occupied / "below")) == 32
    assert "cannot cache" in caplog.text
    assert occupied.read_bytes() == b""

    def fail(*arguments):
        raise OSError("no space left")

    monkeypatch.setattr("os.replace", fail)
    articulated_shapes(per_class=2, cache=tmp_path)
    assert "no space left" in caplog.text
    assert list(tmp_path.iterdir()) == [occupied]


def test_the_default_collection_divides_as_shrec11_does(calls, tmp_path, monkeypatch):
    monkeypatch.setenv("EQUIGEO_CACHE", str(tmp_path / "new" / "folder"))
    shapes = articulated_shapes()
    assert len(list((tmp_path / "new" / "folder").iterdir())) == 1
    number = shapes.num_classes
    assert [len(part) for part in split_indices(shapes, "16")] == [16 * number, 4 * number]
    assert torch.equal(split_indices(shapes, "16")[0], split_indices(shapes, "folder")[0])
    assert [len(part) for part in split_indices(shapes, "10")] == [10 * number, 10 * number]


@pytest.mark.parametrize("function", [articulated_shapes, articulated_parts])
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"seed": -1}, "seed must be at least 0"),
        ({"seed": "1"}, "seed must be an integer"),
        ({"per_class": 2.5}, "per_class must be an integer"),
        ({"faces": 500.0}, "faces must be an integer"),
        ({"per_class": 1}, "per_class must be at least 2"),
        ({"faces": 501}, "faces must be even"),
        ({"faces": 100}, "from 200 to 2000"),
        ({"faces": 5000}, "from 200 to 2000"),
    ],
)
def test_arguments_out_of_range_are_refused(function, arguments, message, tmp_path):
    error = TypeError if "integer" in message else ValueError
    refused(message, function, **arguments, cache=tmp_path, error=error)
    assert list(tmp_path.iterdir()) == []


_ANIMALS = ("bird", "dinosaur", "dog", "gorilla", "horse", "man")


@pytest.fixture(scope="module")
def animals(cache):
    return articulated_parts(per_class=2, faces=200, cache=cache)


def test_animals_are_balanced_and_have_all_parts(animals):
    assert animals.names == tuple(f"{name}/{k}" for name in _ANIMALS for k in range(2))
    assert animals.in_train.tolist() == [True, False] * 6
    assert animals.labels_at == "faces"
    for part in (animals.in_train, ~animals.in_train):
        labels = torch.cat([animals.labels[i] for i in part.nonzero().flatten().tolist()])
        assert labels.unique().tolist() == list(range(8))
    wing, tail = animals.classes.index("wing"), animals.classes.index("tail")
    for name, labels in zip(animals.names, animals.labels, strict=True):
        assert bool((labels == wing).any()) == name.startswith("bird")
        assert bool((labels == tail).any()) == (name[:3] not in {"man", "gor"})


@pytest.mark.full
def test_meshes_are_those_of_the_articulated_shapes(animals, cache):
    every = articulated_shapes(per_class=2, faces=200, cache=cache)
    by_name = dict(zip(every.names, every.meshes, strict=True))
    for mesh, name in zip(animals.meshes, animals.names, strict=True):
        assert torch.equal(mesh.vertices, by_name[name].vertices)
        assert torch.equal(mesh.faces, by_name[name].faces)


def test_cached_labels_have_the_same_bits_and_are_replaced_if_damaged(animals, tmp_path, cache):
    (path,) = cache.glob("articulated_parts-*")
    with np.load(path) as stored:
        arrays = dict(stored)
    assert _same(articulated_parts(per_class=2, faces=200, cache=cache), animals)
    for labels in (arrays["labels"] + 10, arrays["labels"][:5]):
        np.savez(tmp_path / path.name, **{**arrays, "labels": labels})
        assert _same(articulated_parts(per_class=2, faces=200, cache=tmp_path), animals)
    assert np.array_equal(np.load(tmp_path / path.name)["labels"], arrays["labels"])


_COUNT = 1500  # what articulated_shapes uses: surfaces are shared between the tests


@pytest.mark.parametrize("template", SHAPE_TEMPLATES, ids=lambda t: t.name)
def test_the_rest_surface_of_a_template_is_sound_and_poses_nearly_isometric(template):
    rest = rest_surface(template, _COUNT)
    assert len(rest.faces) == _COUNT
    assert surface_defect(rest.vertices, rest.faces, template.genus) is None
    limbs = rest.weights.shape[1]
    np.testing.assert_allclose(rest.weights.sum(axis=1), 1.0, **tolerance(torch.float64, limbs))
    edges = rest.faces[:, :2]
    lengths = np.linalg.norm(np.diff(rest.vertices[edges], axis=1), axis=2)
    for seed in range(3):
        posed = pose_surface(rest, np.random.default_rng(seed))
        moved = np.linalg.norm(np.diff(posed[edges], axis=1), axis=2)
        assert abs(np.median(moved / lengths) - 1) < 0.1
        # Lengths change at joints alone.
        assert moved.sum() == pytest.approx(lengths.sum(), rel=0.2)


def test_poses_only_change_proportions_without_freedom_and_limbs_stay_apart():
    limb = Limb("rod", ((0, 0, 0), (1, 0, 0), (2, 0, 0)), (0.2, 0.2, 0.2), (0, 0))
    rest = rest_surface(ShapeTemplate("rod", (limb,)), 200)
    posed = pose_surface(rest, np.random.default_rng(0))
    assert np.abs(posed - rest.vertices).max() < 0.05 * 2 + 0.08 * 0.2 + 0.01
    # with nothing to stop them these two arms would cross in most draws
    arm = Limb(
        "arm", ((0, 0.3, 0), (1, 0.3, 0)), (0.1, 0.1), (80,), "body", axis=(0, 0, 1), mirror=True
    )
    body = Limb("body", ((0, -0.3, 0), (0, 0.3, 0)), (0.12, 0.12), (0,), axis=(0, 0, 1))
    rest = rest_surface(ShapeTemplate("arms", (body, arm)), 600)
    along_left = rest.weights[:, 1] > 0.95
    along_right = rest.weights[:, 2] > 0.95
    for seed in range(20):
        posed = pose_surface(rest, np.random.default_rng(seed))
        gaps = posed[along_left][:, None] - posed[along_right][None]
        assert np.linalg.norm(gaps, axis=2).min() > 0.02


def test_copies_of_a_limb_are_mirrored_and_turned_and_distances_are_to_segments():
    body = Limb("body", ((0, 0, 0), (0, 0, 1)), (0.1, 0.1), (0,))
    arm = Limb(
        "arm", ((0, 0.1, 1), (0, 1, 1)), (0.1, 0.1), (30,), "body", axis=(0, 0, 1), mirror=True
    )
    legs = Limb("leg", ((0.1, 0, 0), (1, 0, 0)), (0.1, 0.1), (30,), "body", around=4)
    skeleton = Skeleton.from_template(ShapeTemplate("star", (body, arm, legs)))
    assert skeleton.parents.tolist() == [-1, 0, 0, 0, 0, 0, 0]
    ends = [[0, 1, 1], [0, -1, 1], [1, 0, 0], [0, 1, 0], [-1, 0, 0], [0, -1, 0]]
    np.testing.assert_allclose(skeleton.ends[1:], ends, **tolerance(torch.float64, terms=3))
    limb = Limb("rod", ((0, 0, 0), (2, 0, 0)), (0.1, 0.3), (0,))
    skeleton = Skeleton.from_template(ShapeTemplate("rod", (limb,)))
    points = np.array([[1.0, 2.0, 0.0], [-3.0, 0.0, 0.0], [2.0, 0.0, 0.5]])
    distances, radii = skeleton.distances(points)
    np.testing.assert_allclose(distances[:, 0], [2.0, 3.0, 0.5])
    np.testing.assert_allclose(radii[:, 0], [0.2, 0.1, 0.3])


def test_a_limb_that_makes_no_sense_is_refused():
    sound = {"points": ((0, 0, 0), (1, 0, 0), (2, 0, 1)), "radii": (0.1,) * 3, "bends": (0, 0)}
    counts = "limb 'rod': 3 points need 3 radii and 2 bends"
    for change, message in (
        ({"axis": (2.0, 0.0, 0.0)}, "limb 'rod': axis lies along a bone"),
        *(({"radii": (0.1,)}, counts), ({"bends": (0, 0, 0)}, counts)),
    ):
        template = ShapeTemplate("rod", (Limb("rod", **sound | change),))
        refused(message, Skeleton.from_template, template)


def test_bones_have_parts_and_the_halving_plane_decides_around_a_bent_joint():
    for template in PART_TEMPLATES:
        skeleton, parts = Skeleton.from_template(template), bone_parts(template)
        assert len(parts) == skeleton.num_bones
        names = [PARTS[part] for part in parts]
        assert {"head", "torso", "upper limb", "lower limb"} <= set(names)
        for name, parent in zip(names, skeleton.parents, strict=True):  # lower below upper
            if name in {"lower limb", "hand or foot"}:
                assert names[parent] in {"upper limb", "lower limb"}
        middles = (skeleton.starts + skeleton.ends) / 2
        for bone in np.flatnonzero(np.abs(middles[:, 1]) > 0.05):
            mirrored = np.linalg.norm(middles - middles[bone] * [1, -1, 1], axis=1)
            assert parts[mirrored.argmin()] == parts[bone]
    message = r"'octopus': limb 'head' has 2 bones and 0 parts"
    refused(message, bone_parts, _BY_NAME["octopus"])
    # On its outer side the joint itself is the closest point of both bones
    limb = Limb("arm", ((0, 0, 0), (1, 0, 0), (1, 1, 0)), (0.1, 0.1, 0.1), (0, 60), axis=(0, 0, 1))
    skeleton = Skeleton.from_template(ShapeTemplate("arm", (limb,)))
    angles = np.linspace(-0.98, 0.98, 40) * np.pi  # about the joint, from the plane's outer side
    outwards, across = np.array([1.0, -1, 0]) / 2**0.5, np.array([1.0, 1, 0]) / 2**0.5
    for radius in (0.05, 0.1, 0.3):
        points = np.cos(angles)[:, None] * outwards + np.sin(angles)[:, None] * across
        points = [1, 0, 0] + radius * points
        expected = (np.sin(angles) > 0).astype(int)
        assert np.array_equal(nearest_bones(skeleton, points), expected)


@pytest.mark.parametrize("template", PART_TEMPLATES, ids=lambda t: t.name)
def test_parts_are_patches_and_at_rest_faces_belong_to_the_nearest_bone(template):
    # Nothing is posed, simplified or noisy: the rest position is the position
    rest = rest_surface(template, 600)
    shape = generate_instance(template, 200, seed=0, instance=0)
    shape = replace(shape, rest=rest, posed=rest.vertices, unplaced=rest.vertices, faces=rest.faces)
    centres = rest.vertices[rest.faces].mean(axis=1)
    distances, radii = Skeleton.from_template(template).distances(centres)
    limb = np.array(_limbs(template))
    nearest = limb[(distances / radii).argmin(axis=1)]
    within = np.where(limb == nearest[:, None], distances, np.inf)
    clear = np.partition(within, 1, axis=1)[:, 1] > within.min(axis=1) + 1e-4
    assert clear.mean() > 0.5
    expected = bone_parts(template)[within.argmin(axis=1)]
    assert np.array_equal(part_labels(shape, template)[clear], expected[clear])
    # No stray faces: connected patches are as many as there are parts of limbs
    shape = generate_instance(template, 500, seed=0, instance=1)
    labels = part_labels(shape, template)
    one, other = trimesh.graph.face_adjacency(shape.faces).T
    same = labels[one] == labels[other]
    graph = sparse.coo_matrix((same[same], (one[same], other[same])), (500, 500))
    # Heads and tails are one patch, with ears and all; of the others there is one on each limb.
    pairs = {(PARTS[p], n) for p, n in zip(bone_parts(template), _limbs(template), strict=True)}
    expected = {(part, 0 if part in {"head", "tail"} else limb) for part, limb in pairs}
    assert connected_components(graph, directed=False)[0] == len(expected)


def _limbs(template):
    """Number of the copy of a limb that each bone is in."""
    numbers = []
    for limb in template.limbs:
        for _ in range(limb.around * (1 + limb.mirror)):
            numbers += [numbers[-1] + 1 if numbers else 0] * (len(limb.points) - 1)
    return numbers


@pytest.mark.full
def test_labels_do_not_depend_on_the_number_of_faces():
    # The same animal at 250 and 1,000 faces; another animal is the negative control
    def shares(name, faces):
        shape = generate_instance(_BY_NAME[name], faces, 0, 0)
        area = trimesh.triangles.area(shape.unplaced[shape.faces])
        labels = part_labels(shape, _BY_NAME[name])
        return np.bincount(labels, area, minlength=len(PARTS)) / area.sum()

    fine = shares("man", 1000)
    # Simplification takes from thin limbs: hands and feet lose a fifth of their area.
    assert np.abs(shares("man", 250) - fine).max() < 0.04
    assert np.abs(shares("horse", 1000) - fine).max() > 0.1


def test_instances_are_the_generated_shapes_in_one_pose_at_any_number_of_faces():
    man = _BY_NAME["man"]
    coarse, fine = (generate_instance(man, n, 0, 1).unplaced for n in (250, 1000))
    other = generate_instance(man, 1000, 0, 2).unplaced
    diagonal = np.linalg.norm(np.ptp(fine, axis=0))

    def apart(points, surface):
        gaps = np.linalg.norm(points[:, None] - surface, axis=2).min(axis=1)
        return np.quantile(gaps, 0.9) / diagonal

    assert apart(coarse, fine) < 0.02  # about half an edge
    assert apart(other, fine) > 0.05


@pytest.mark.parametrize("name", _ANIMALS)
def test_correspondence_is_known_in_every_pose_and_at_mirror_images(name):
    shape = generate_instance(_BY_NAME[name], 200, seed=0, instance=0)
    rest = shape.rest
    poses = [pose_surface(rest, np.random.default_rng(k)) for k in (0, 1)]
    one, other = (
        replace(shape, posed=pose, unplaced=pose, vertices=pose, faces=rest.faces) for pose in poses
    )
    truth = corresponding(one, other)
    number = torch.arange(len(rest.vertices))
    assert torch.equal(truth[:, 0], number)
    in_space = np.linalg.norm(poses[0][:, None] - poses[1], axis=2).argmin(axis=1)
    assert (in_space == number.numpy()).mean() < 0.7  # poses differ
    errors = geodesic_errors(poses[1], rest.faces, truth[truth[:, 1], 1], number)
    assert errors.mean() < 0.05  # two nearest vertices, each half an edge away
    assert geodesic_errors(poses[1], rest.faces, truth[:, 1], number).mean() > 0.2


def test_pairs_map_neighbors_to_neighbors():
    pairs = articulated_pairs(per_class=1, faces=200, target_faces=300)
    assert [pair.name for pair in pairs] == [f"{name}/0" for name in _ANIMALS]
    generator = torch.Generator().manual_seed(0)
    for pair in pairs:
        assert (pair.source.num_faces, pair.target.num_faces) == (200, 300)
        target = pair.target.vertices, pair.target.faces
        start, end = pair.source.faces.T[:2]
        for truth in pair.truth.T:
            near = geodesic_errors(*target, truth[start], truth[end]).mean()
            mixed = end[torch.randperm(len(end), generator=generator)]
            assert near < 0.4 * geodesic_errors(*target, truth[start], truth[mixed]).mean()
    assert len(repr(pairs[0])) < 200
    (same, *_) = articulated_pairs(per_class=1, faces=200)
    assert torch.equal(same.source.vertices, pairs[0].source.vertices)
    refused("per_class must be at least 1, got 0", articulated_pairs, per_class=0)
    for number in (0, 201):
        refused("^target_faces must be even, from 200", articulated_pairs, target_faces=number)
    refused("^faces must be even, from 200 to 2000", articulated_pairs, faces=201)
    names = ("seed", "per_class", "faces", "target_faces")
    for name, value in itertools.product(names, (1.5, "1", True)):
        message = f"^{name} must be an integer"
        refused(message, articulated_pairs, **{name: value}, error=TypeError)


_COORDINATES = st.floats(-2, 2, width=32)


@given(arrays(float, 3, elements=_COORDINATES), arrays(float, (3, 3), elements=_COORDINATES))
def test_distances_are_those_of_constrained_least_squares(point, corners):
    normal = np.cross(corners[1] - corners[0], corners[2] - corners[0])
    if np.linalg.norm(normal) < 1e-2:  # so thin that least squares are inaccurate
        return
    weights, distance = closest_on_triangles(point, corners)
    assert (weights >= 0).all()
    near = 1e-12  # epsilon times the squares of edges, up to 48, over the normal
    assert weights.sum() == pytest.approx(1, abs=near)
    assert np.linalg.norm(weights @ corners - point) == pytest.approx(distance, abs=near)
    # barycentric coordinates as non-negative least squares; a heavy row makes their sum one
    heavy = 1e4
    matrix = np.vstack([corners.T, np.full(3, heavy)])
    weights, _ = nnls(matrix, np.append(point, heavy))
    expected = np.linalg.norm(weights / weights.sum() @ corners - point)
    # the condition holds to about the inverse of its weight, squared
    assert distance == pytest.approx(expected, abs=1e-5)


def test_many_points_go_with_many_triangles():
    generator = np.random.default_rng(0)
    points, corners = generator.random((7, 1, 3)), generator.random((7, 5, 3, 3))
    weights, distances = closest_on_triangles(points, corners)
    assert (weights.shape, distances.shape) == ((7, 5, 3), (7, 5))
    one = closest_on_triangles(points[2, 0], corners[2, 3])
    assert np.array_equal(one[0], weights[2, 3])
    assert one[1] == distances[2, 3]


@given(st.integers(0, 2**32 - 1), st.floats(0.05, 0.95))
def test_any_field_gives_a_closed_oriented_surface_around_its_negative_part(seed, share):
    values = np.ones((6, 7, 8))
    random = np.random.default_rng(seed).uniform(size=(4, 5, 6)) - share
    values[1:-1, 1:-1, 1:-1] = random
    values[2, 2, 2] = -1.0
    surface = trimesh.Trimesh(*marching_tetrahedra(values), process=False)
    assert surface.is_watertight
    assert surface.is_winding_consistent
    assert surface.volume > 0


def test_the_volume_of_a_ball_is_right_and_a_surface_that_is_cut_off_refused():
    x, y, z = np.mgrid[-20:21, -20:21, -20:21]
    surface = marching_tetrahedra(np.sqrt(x**2 + y**2 + z**2) - 15.3)
    volume = trimesh.Trimesh(*surface, process=False).volume
    # faces are chords of the sphere: off by (cell / radius)^2 / 4 and the clipped cuts
    assert volume == pytest.approx(4 / 3 * np.pi * 15.3**3, rel=5e-3)
    refused("positive on the boundary", marching_tetrahedra, -np.ones((3, 3, 3)))


@pytest.fixture(scope="module")
def torus():
    x, y, z = np.mgrid[-14:15, -14:15, -6:7]
    return marching_tetrahedra(np.hypot(np.hypot(x, y) - 9, z) - 3.2)


def test_simplify_count_is_exact_and_the_topology_and_given_arrays_stay(torus):
    copies = [array.copy() for array in torus]
    for count in (2000, 500, 100, 40):
        vertices, faces = simplify_surface(*torus, count, np.random.default_rng(0))
        assert len(faces) == count
        assert surface_defect(vertices, faces, genus=1) is None
    for array, copy in zip(torus, copies, strict=True):
        np.testing.assert_array_equal(array, copy)
    for count, message in (
        *((count, "count must be even") for count in (101, 2, 1_000_000)),
        (8, "no collapse is left"),  # a torus needs 14 triangles
    ):
        refused(message, simplify_surface, *torus, count, np.random.default_rng(0))


_VERTICES = np.concatenate([np.zeros((1, 3)), np.eye(3)])
_FACES = np.array([[0, 2, 1], [0, 1, 3], [0, 3, 2], [1, 2, 3]])


_TWICE = (np.concatenate([_VERTICES, _VERTICES]), np.concatenate([_FACES, _FACES + 4]))


def test_every_defect_is_named():
    assert surface_defect(_VERTICES, _FACES, genus=0) is None
    for vertices, faces, genus, defect in (
        (_VERTICES * np.nan, _FACES, 0, "not finite"),
        (_VERTICES, np.concatenate([_FACES, _FACES]), 0, "two faces on one side"),
        (_VERTICES, np.concatenate([_FACES, [[1, 1, 2]]]), 0, "degenerate"),
        (_VERTICES, _FACES[:3], 0, "one face on each side"),
        (*_TWICE, 0, "several"),
        (np.concatenate([_VERTICES, _VERTICES[:1]]), _FACES, 0, "unused"),
        (_VERTICES, _FACES, 1, "characteristic is 2, not 0"),
        (_VERTICES * [1, 1, 0], _FACES, 0, "no area"),
        (_VERTICES, _FACES[:, ::-1], 0, "volume"),
    ):
        assert defect in surface_defect(vertices, faces, genus)
