import numpy as np
import pytest
import torch

from equigeo.datasets import articulated_parts, articulated_shapes

_ANIMALS = ("bird", "dinosaur", "dog", "gorilla", "horse", "man")


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("shapes")


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
    shapes = articulated_shapes(per_class=2, faces=200, cache=cache)
    by_name = dict(zip(shapes.names, shapes.meshes, strict=True))
    for mesh, name in zip(animals.meshes, animals.names, strict=True):
        assert torch.equal(mesh.vertices, by_name[name].vertices)
        assert torch.equal(mesh.faces, by_name[name].faces)


def _same(first, second):
    rows = zip(first.meshes, second.meshes, first.labels, second.labels, strict=True)
    return all(
        torch.equal(a.vertices, b.vertices) and torch.equal(a.faces, b.faces) and torch.equal(x, y)
        for a, b, x, y in rows
    )


def test_the_cache_gives_the_same_bits_and_is_replaced_when_damaged(animals, tmp_path, cache):
    (path,) = cache.glob("articulated_parts-*")
    with np.load(path) as stored:
        arrays = dict(stored)
    assert _same(articulated_parts(per_class=2, faces=200, cache=cache), animals)
    for labels in (arrays["labels"] + 10, arrays["labels"][:5]):
        np.savez(tmp_path / path.name, **{**arrays, "labels": labels})
        assert _same(articulated_parts(per_class=2, faces=200, cache=tmp_path), animals)
    assert np.array_equal(np.load(tmp_path / path.name)["labels"], arrays["labels"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"seed": -1}, "seed must not be negative"),
        ({"per_class": 1}, "per_class must be at least 2"),
        ({"faces": 251}, "faces must be even"),
    ],
)
def test_arguments_out_of_range_are_refused(arguments, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        articulated_parts(**arguments, cache=tmp_path)
    assert list(tmp_path.iterdir()) == []
