import subprocess
import sys

import numpy as np
import pytest
import torch

from equigeo.datasets import engraved_cubes, split_indices
from equigeo.datasets.engraved.icon_templates import ICON_TEMPLATES
from equigeo.datasets.shapes.surface_defect import surface_defect

_SMALL = {"classes": 3, "icons": 3, "placements": 2}


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cubes")


@pytest.fixture(scope="module")
def cubes(cache):
    return engraved_cubes(**_SMALL, cache=cache)


def _same(first, second):
    return torch.equal(first.vertices, second.vertices) and torch.equal(first.faces, second.faces)


def test_classes_icons_and_placements_are_in_order(cubes):
    assert cubes.classes == tuple(template.name for template in ICON_TEMPLATES[:3])
    first = [f"arrowhead/{icon}/{placement}" for icon in range(3) for placement in range(2)]
    assert cubes.names[:7] == (*first, "bone/0/0")
    for name, label, group in zip(cubes.names, cubes.labels, cubes.groups, strict=True):
        kind, icon, _ = name.split("/")
        assert cubes.classes[label] == kind
        assert int(group) == 3 * int(label) + int(icon)


def test_every_mesh_is_a_sound_surface_of_500_faces(cubes):
    for mesh in cubes.meshes:
        assert (mesh.num_faces, mesh.num_vertices) == (500, 252)
        assert surface_defect(mesh.vertices.numpy(), mesh.faces.numpy(), genus=0) is None


def test_placements_of_one_icon_differ_in_connectivity(cubes):
    assert not torch.equal(cubes.meshes[0].faces, cubes.meshes[1].faces)


@pytest.mark.parametrize("more", [{"classes": 4}, {"icons": 4}, {"placements": 3}])
def test_a_mesh_does_not_depend_on_how_many_others_there_are(cubes, more, tmp_path):
    others = engraved_cubes(**(_SMALL | more), cache=tmp_path)
    by_name = dict(zip(others.names, others.meshes, strict=True))
    assert len(by_name) > len(cubes)
    assert all(_same(by_name[n], m) for n, m in zip(cubes.names, cubes.meshes, strict=True))


def test_another_seed_gives_other_icons_in_every_mesh(cubes, tmp_path):
    others = engraved_cubes(1, **_SMALL, cache=tmp_path)
    assert not any(_same(a, b) for a, b in zip(cubes.meshes, others.meshes, strict=True))


def test_another_process_gives_the_same_bits(cubes, tmp_path):
    code = (
        "import sys; from pathlib import Path; from equigeo.datasets import engraved_cubes;"
        f"d = engraved_cubes(**{_SMALL!r}, cache=Path(sys.argv[1]));"
        "sys.stdout.buffer.write(d.meshes[-1].vertices.numpy().tobytes())"
    )
    command = [sys.executable, "-c", code, str(tmp_path)]
    there = subprocess.run(command, capture_output=True, check=True).stdout
    assert there == cubes.meshes[-1].vertices.numpy().tobytes()


def test_the_cache_gives_the_same_bits_and_is_replaced_when_damaged(cubes, cache, tmp_path):
    (path,) = cache.iterdir()
    again = engraved_cubes(**_SMALL, cache=cache)
    assert all(_same(a, b) for a, b in zip(again.meshes, cubes.meshes, strict=True))
    (tmp_path / path.name).write_bytes(path.read_bytes()[:1000])
    again = engraved_cubes(**_SMALL, cache=tmp_path)
    assert all(_same(a, b) for a, b in zip(again.meshes, cubes.meshes, strict=True))


def test_icons_are_for_training_or_for_test_never_both(monkeypatch, tmp_path):
    cubes = _full(monkeypatch, tmp_path)
    assert [int(cubes.in_train.sum()), int((~cubes.in_train).sum())] == [3740, 660]
    train, test = split_indices(cubes, "folder")
    assert not set(cubes.groups[train].tolist()) & set(cubes.groups[test].tolist())
    icons = [int(name.split("/")[1]) for name in cubes.names]
    assert {icons[i] for i in train} == set(range(17))
    assert {icons[i] for i in test} == {17, 18, 19}


@pytest.mark.parametrize("split", ["16", "10"])
def test_drawn_splits_keep_icons_together(monkeypatch, tmp_path, split):
    cubes = _full(monkeypatch, tmp_path)
    train, test = split_indices(cubes, split)
    assert not set(cubes.groups[train].tolist()) & set(cubes.groups[test].tolist())
    assert cubes.labels[train].bincount().tolist() == [10 * int(split)] * 22


def _full(monkeypatch, tmp_path):
    """The data set of the default size, with the same cube everywhere."""
    module = sys.modules["equigeo.datasets.engraved.engraved_cubes"]
    vertices, faces = np.zeros((252, 3)), np.zeros((500, 3), np.int64)
    monkeypatch.setattr(module, "engrave_cube", lambda *_: (vertices, faces))
    monkeypatch.setattr(module, "draw_icon", lambda *_: None)
    return engraved_cubes(cache=tmp_path)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"seed": -1}, "seed must not be negative"),
        ({"classes": 1}, "classes must be from 2 to 22, got 1"),
        ({"classes": 23}, "classes must be from 2 to 22, got 23"),
        ({"icons": 1}, "icons must be at least 2"),
        ({"placements": 0}, "placements must be positive"),
        ({"faces": 501}, "faces must be even"),
        ({"faces": 100}, "from 200 to 2000"),
    ],
)
def test_arguments_out_of_range_are_refused(arguments, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        engraved_cubes(**arguments, cache=tmp_path)
    assert list(tmp_path.iterdir()) == []
