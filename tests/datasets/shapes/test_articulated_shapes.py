"""Articulated shapes, and the same with labelled parts."""

import logging
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch

from equigeo.datasets import articulated_parts, articulated_shapes, split_indices
from equigeo.datasets.shapes.articulated_shapes import SHAPE_TEMPLATES
from equigeo.datasets.shapes.generate_shape import generate_shape
from equigeo.datasets.shapes.surface_defect import surface_defect


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


def test_there_are_at_least_twelve_balanced_classes(shapes):
    assert shapes.num_classes >= 12
    assert torch.bincount(shapes.labels).tolist() == [2] * shapes.num_classes
    assert shapes.classes == tuple(sorted(shapes.classes))
    assert shapes.in_train.tolist() == [True, False] * shapes.num_classes
    assert len(set(shapes.names)) == len(shapes)


def test_every_mesh_is_a_sound_surface_of_500_faces(shapes):
    genus = {template.name: template.genus for template in SHAPE_TEMPLATES}
    for mesh, label in zip(shapes.meshes, shapes.labels.tolist(), strict=True):
        assert mesh.num_faces == 500
        handles = genus[shapes.classes[label]]
        assert mesh.num_vertices == 252 - 2 * handles
        assert surface_defect(mesh.vertices.numpy(), mesh.faces.numpy(), handles) is None


def test_instances_of_a_class_differ_in_shape_and_connectivity(shapes):
    for k in range(0, len(shapes), 2):
        first, second = shapes.meshes[k : k + 2]
        assert not torch.equal(first.faces, second.faces)
        assert not torch.allclose(first.vertices.std(0), second.vertices.std(0))


@pytest.mark.parametrize("faces", [200, 1000])
def test_other_numbers_of_faces_are_exact(faces):
    scissors = next(t for t in SHAPE_TEMPLATES if t.name == "scissors")
    vertices, triangles = generate_shape(scissors, faces, seed=0, instance=0)
    assert len(triangles) == faces
    assert surface_defect(vertices, triangles, genus=2) is None


def test_a_seed_repeats_to_the_bit_in_another_process_and_another_seed_differs(shapes):
    template = SHAPE_TEMPLATES[-1]
    here, other = (generate_shape(template, 500, seed, 1) for seed in (0, 1))
    np.testing.assert_array_equal(here[0], shapes.meshes[-1].vertices.numpy())
    assert not np.array_equal(here[0], other[0])
    code = (
        "import sys; from equigeo.datasets.shapes.generate_shape import generate_shape as g;"
        "from equigeo.datasets.shapes.articulated_shapes import SHAPE_TEMPLATES as t;"
        "v, f = g(t[-1], 500, 0, 1); sys.stdout.buffer.write(v.tobytes() + f.tobytes())"
    )
    there = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout
    assert there == here[0].tobytes() + here[1].tobytes()


@pytest.fixture
def calls(monkeypatch):
    """Replace the generator by a fast one, and list what it is asked for."""
    asked = []

    def generate(template, faces, seed, instance):
        asked.append((template.name, instance))
        generator = np.random.default_rng([seed, len(template.name), instance])
        triangles = generator.integers(0, 250, (faces, 3))
        return generator.normal(size=(250, 3)), triangles

    # the package's attribute of this name is the function
    module = sys.modules["equigeo.datasets.shapes.articulated_shapes"]
    monkeypatch.setattr(module, "generate_shape", generate)
    return asked


def test_a_second_call_reads_the_cache_and_gives_the_same_bits(calls, tmp_path):
    first = articulated_shapes(per_class=3, cache=tmp_path)
    number = len(calls)
    assert number == 3 * first.num_classes
    assert _same(articulated_shapes(per_class=3, cache=tmp_path), first)
    assert len(calls) == number
    assert [p.suffix for p in tmp_path.iterdir()] == [".npz"]  # nothing unfinished is left


@pytest.mark.parametrize("change", [{"seed": 1}, {"per_class": 2}, {"faces": 200}])
def test_other_parameters_are_another_cache_entry(calls, tmp_path, change):
    articulated_shapes(per_class=3, cache=tmp_path)
    number = len(calls)
    articulated_shapes(**{"per_class": 3, "cache": tmp_path, **change})
    assert len(calls) > number
    assert len(list(tmp_path.iterdir())) == 2


@pytest.mark.parametrize("damage", ["empty", "truncated", "flipped", "pickle", "other", "indices"])
def test_a_damaged_cache_is_replaced(calls, tmp_path, caplog, damage):
    shapes = articulated_shapes(per_class=2, cache=tmp_path)
    (path,) = tmp_path.iterdir()
    raw = path.read_bytes()
    with np.load(path) as stored:
        arrays = dict(stored)
    if damage == "pickle":
        np.savez(path, **{**arrays, "vertices": np.array([{}], dtype=object)})
    elif damage == "other":
        np.savez(path, vertices=np.zeros((4, 3)))
    elif damage == "indices":
        np.savez(path, **{**arrays, "faces": arrays["faces"] + 1000})
    else:
        middle = len(raw) // 2
        flipped = raw[:middle] + bytes([raw[middle] ^ 255]) + raw[middle + 1 :]
        path.write_bytes({"empty": b"", "truncated": raw[:middle], "flipped": flipped}[damage])
    with caplog.at_level(logging.WARNING):
        assert _same(articulated_shapes(per_class=2, cache=tmp_path), shapes)
    assert "damaged" in caplog.text
    assert _same(articulated_shapes(per_class=2, cache=tmp_path), shapes)
    assert len(calls) == 2 * len(shapes)


def test_a_cache_that_cannot_be_written_only_costs_time(calls, tmp_path, caplog):
    occupied = tmp_path / "file"
    occupied.touch()
    with caplog.at_level(logging.WARNING):
        assert len(articulated_shapes(per_class=2, cache=occupied / "below")) == 32
    assert "cannot cache" in caplog.text
    assert occupied.read_bytes() == b""


def test_a_write_that_fails_leaves_nothing_behind(calls, tmp_path, monkeypatch, caplog):
    def fail(*arguments):
        raise OSError("no space left")

    monkeypatch.setattr("os.replace", fail)
    articulated_shapes(per_class=2, cache=tmp_path)
    assert "no space left" in caplog.text
    assert list(tmp_path.iterdir()) == []


def test_generating_at_once_from_several_places_is_safe(calls, tmp_path):
    with ThreadPoolExecutor(4) as pool:
        runs = [pool.submit(articulated_shapes, per_class=4, cache=tmp_path) for _ in range(8)]
        results = [run.result() for run in runs]
    assert all(_same(result, results[0]) for result in results)
    assert len(list(tmp_path.iterdir())) == 1


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
        ({"seed": -1}, "seed must not be negative"),
        ({"per_class": 1}, "per_class must be at least 2"),
        ({"faces": 501}, "faces must be even"),
        ({"faces": 100}, "from 200 to 2000"),
        ({"faces": 5000}, "from 200 to 2000"),
    ],
)
def test_arguments_out_of_range_are_refused(function, arguments, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        function(**arguments, cache=tmp_path)
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


def test_labels_in_the_cache_have_the_same_bits_and_are_replaced_when_damaged(
    animals, tmp_path, cache
):
    (path,) = cache.glob("articulated_parts-*")
    with np.load(path) as stored:
        arrays = dict(stored)
    assert _same(articulated_parts(per_class=2, faces=200, cache=cache), animals)
    for labels in (arrays["labels"] + 10, arrays["labels"][:5]):
        np.savez(tmp_path / path.name, **{**arrays, "labels": labels})
        assert _same(articulated_parts(per_class=2, faces=200, cache=tmp_path), animals)
    assert np.array_equal(np.load(tmp_path / path.name)["labels"], arrays["labels"])
