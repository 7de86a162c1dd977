import subprocess
import sys
from itertools import product
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import trimesh
from scipy import ndimage

from equigeo.datasets import engraved_cubes, split_indices
from equigeo.datasets.engraved_cubes import (
    ICON_TEMPLATES,
    SIZE,
    Ellipse,
    IconTemplate,
    Lobes,
    Polygon,
    Stroke,
    draw_icon,
    engrave_cube,
)
from equigeo.datasets.shapes.surface import surface_defect
from tests.tier import tier
from tests.wrong_inputs import refused

_STEP = 0.02
_TICKS = np.arange(-1.5, 1.5, _STEP) + _STEP / 3
_POINTS = np.stack(np.meshgrid(_TICKS, _TICKS), axis=-1)
_NOMINAL = SimpleNamespace(uniform=lambda low, high: (low + high) / 2)  # the middle of every range


def _area(part, generator=_NOMINAL):
    return part.contains(_POINTS, generator).sum() * _STEP**2


def test_areas_are_those_of_elementary_geometry():
    for part, area in (
        (Stroke(((-0.5, 0.0), (0.5, 0.0)), 0.2), 0.4 + np.pi * 0.04),
        (Ellipse((0.1, 0.2), (0.8, 0.5)), np.pi * 0.4),
        (Ellipse((0.0, 0.0), (0.5, 0.5), 60.0), 1.0),
        (Polygon(((0, 0), (1, 0), (1, 1), (0.5, 0.5), (0, 1))), 0.75),
        (Polygon(((0, 1), (0.5, 0.5), (1, 1), (1, 0), (0, 0))), 0.75),
        # half of the integral of the squared radius: mean square plus half of the amplitude's
        (Lobes(3, 0.4, 0.8), np.pi * (0.6**2 + 0.2**2 / 2)),
        (Lobes(5, 0.4, 0.8, "pointed"), np.pi * (0.6**2 + 0.2**2 / 3)),
    ):
        assert abs(_area(part) - area) < 0.02 * area


@pytest.mark.parametrize("profile", ["round", "pointed", "square"])
def test_lobes_are_as_many_as_asked_for_and_one_points_up(profile):
    angles = np.linspace(0, 2 * np.pi, 720, endpoint=False)
    circle = 0.6 * np.stack([np.sin(angles), np.cos(angles)], axis=-1)
    inside = Lobes(7, 0.4, 0.8, profile).contains(circle, _NOMINAL)
    assert inside[0]
    assert np.sum(inside & ~np.roll(inside, 1)) == 7


def test_sizes_vary_by_their_share_and_no_more():
    for part, share in (
        (Stroke(((0.0, 0.0), (1e-9, 0.0)), 0.5), 0.2),  # almost a disc
        (Ellipse((0.0, 0.0), (0.8, 0.5)), 0.15),
        (Polygon(((-0.5, -0.5), (0.5, -0.5), (0.5, 0.5), (-0.5, 0.5))), 0.15),
        (Lobes(2, 0.6, 0.6), 0.15),
    ):
        generator = np.random.default_rng(0)
        # areas grow as squares of sizes
        ratios = np.array([_area(part, generator) / _area(part) for _ in range(60)]) ** 0.5
        assert ratios.min() > 1 - share - 0.02
        assert ratios.max() < 1 + share + 0.02
        assert np.ptp(ratios) > share


_HOLES = {"gear": 1, "key": 1, "ring": 1}
_ICONS = tier(10, 20)  # of a class


@pytest.fixture(scope="module")
def icons():
    return {t.name: [draw_icon(t, 0, k) for k in range(_ICONS)] for t in ICON_TEMPLATES}


def test_icons_differ_are_connected_and_have_the_holes_of_their_class(icons):
    names = [template.name for template in ICON_TEMPLATES]
    assert len(names) >= 22
    assert names == sorted(set(names))
    packed = {picture.tobytes() for pictures in icons.values() for picture in pictures}
    assert len(packed) == _ICONS * len(ICON_TEMPLATES)
    for name, pictures in icons.items():
        for picture in pictures:
            assert picture.shape == (SIZE, SIZE)
            assert ndimage.label(picture)[1] == 1, name
            assert not np.concatenate([picture[[0, -1]], picture[:, [0, -1]].T]).any(), name
        holes = [ndimage.label(~picture)[1] - 1 for picture in pictures]
        assert holes.count(_HOLES.get(name, 0)) >= 0.8 * _ICONS, (name, holes)


def test_an_icon_depends_on_seed_name_and_number_and_keeps_its_largest_component(icons):
    template = ICON_TEMPLATES[3]
    expected = icons[template.name][7]
    assert np.array_equal(draw_icon(template, 0, 7), expected)
    for other, seed in ((template, 1), (IconTemplate("another", template.parts), 0)):
        assert not np.array_equal(draw_icon(other, seed, 7), expected)
    parts = (Ellipse((-0.6, 0.0), (0.3, 0.3)), Ellipse((0.6, 0.0), (0.15, 0.15)))
    picture = draw_icon(IconTemplate("planet and moon", parts), 0, 0)
    columns = np.flatnonzero(picture.any(axis=0))
    assert columns.max() < SIZE / 2
    template = IconTemplate("dot", (Stroke(((0.0, 0.0), (0.1, 0.0)), 0.02),))
    refused(r"icon 'dot' number 3 has \d+ pixels", draw_icon, template, 0, 3, error=RuntimeError)


_SQUARE = np.ones((20, 20), bool)


def _cubes(icon, number, faces=500):
    return [engrave_cube(icon, faces, np.random.default_rng(k)) for k in range(number)]


def _engraved_sides(vertices):
    """Sides, as (axis, sign), that are cut below their middle."""
    sides = []
    for axis, sign in product(range(3), (1, -1)):
        others = np.abs(np.delete(vertices, axis, axis=1)).max(axis=1)
        height = sign * vertices[:, axis]
        if ((height > 0.4) & (height < 0.48) & (others < 0.3)).any():
            sides.append((axis, sign))
    return sides


@pytest.fixture(scope="module")
def squares():
    return _cubes(_SQUARE, tier(24, 40))


@pytest.mark.parametrize("faces", [200, 500, 2000])
def test_cubes_are_sound_and_have_exactly_their_number_of_faces(faces):
    for vertices, triangles in _cubes(_SQUARE, 3, faces):
        assert triangles.shape == (faces, 3)
        assert vertices.shape == (faces // 2 + 2, 3)
        assert surface_defect(vertices, triangles, genus=0) is None


def test_engravings_of_all_sides_keep_their_volume_margin_and_the_edges_of_the_cube(squares):
    sides = [_engraved_sides(vertices) for vertices, _ in squares]
    assert all(len(found) == 1 for found in sides)
    assert len({found[0] for found in sides}) == 6
    for vertices, faces in squares:
        # a turned square's bounding box is at most sqrt(2) times its side
        lost = 1.0 - trimesh.Trimesh(vertices, faces, process=False).volume
        assert 0.04 * 0.5**2 / 2 * 0.8 < lost < 0.08 * 0.85**2 * 1.1
    for vertices, _ in squares:
        low, high = vertices.min(axis=0), vertices.max(axis=0)
        # Simplification moves edges by less than a quarter of one of 32 cells.
        np.testing.assert_allclose([low, high], [[-0.5] * 3, [0.5] * 3], atol=0.25 / 32)
        ((axis, sign),) = _engraved_sides(vertices)
        height = sign * vertices[:, axis]
        others = np.abs(np.delete(vertices, axis, axis=1)).max(axis=1)
        deep = (height > 0.4) & (height < 0.47) & (others < 0.48)
        assert others[deep].max() < 0.45 + 0.02  # walls slope


def test_generators_decide_and_repeat_and_an_empty_picture_raises():
    (first, again), other = _cubes(_SQUARE, 1) + _cubes(_SQUARE, 1), _cubes(_SQUARE, 2)[1]
    np.testing.assert_array_equal(first[0], again[0])
    np.testing.assert_array_equal(first[1], again[1])
    assert not np.array_equal(first[1], other[1])
    with pytest.raises(ValueError, match="needs a pixel inside"):
        engrave_cube(np.zeros((4, 4), bool), 500, np.random.default_rng(0))


_SMALL = {"classes": 2, "icons": 2, "placements": 2}


@pytest.fixture(scope="module")
def cubes(tmp_path_factory):
    return engraved_cubes(**_SMALL, cache=tmp_path_factory.mktemp("cubes"))


def _same(first, second):
    return torch.equal(first.vertices, second.vertices) and torch.equal(first.faces, second.faces)


def test_meshes_are_in_order_sound_and_differ_by_placement_and_seed(cubes, tmp_path):
    assert cubes.classes == tuple(template.name for template in ICON_TEMPLATES[:2])
    first = [f"arrowhead/{icon}/{placement}" for icon in range(2) for placement in range(2)]
    assert cubes.names[:5] == (*first, "bone/0/0")
    for name, label, group in zip(cubes.names, cubes.labels, cubes.groups, strict=True):
        kind, icon, _ = name.split("/")
        assert cubes.classes[label] == kind
        assert int(group) == 2 * int(label) + int(icon)
    for mesh in cubes.meshes:
        assert (mesh.num_faces, mesh.num_vertices) == (500, 252)
        assert surface_defect(mesh.vertices.numpy(), mesh.faces.numpy(), genus=0) is None
    assert not torch.equal(cubes.meshes[0].faces, cubes.meshes[1].faces)
    others = engraved_cubes(1, **_SMALL, cache=tmp_path)
    assert not any(_same(a, b) for a, b in zip(cubes.meshes, others.meshes, strict=True))


@pytest.mark.parametrize(
    "more", tier([{"icons": 3}], [{"classes": 3}, {"icons": 3}, {"placements": 3}])
)
def test_a_mesh_does_not_depend_on_how_many_others_there_are(cubes, more, tmp_path):
    others = engraved_cubes(**(_SMALL | more), cache=tmp_path)
    by_name = dict(zip(others.names, others.meshes, strict=True))
    assert len(by_name) > len(cubes)
    assert all(_same(by_name[n], m) for n, m in zip(cubes.names, cubes.meshes, strict=True))


@pytest.mark.full
def test_another_process_gives_the_same_bits(cubes, tmp_path):
    code = (
        "import sys; from pathlib import Path; from equigeo.datasets import engraved_cubes;"
        f"d = engraved_cubes(**{_SMALL!r}, cache=Path(sys.argv[1]));"
        "sys.stdout.buffer.write(d.meshes[-1].vertices.numpy().tobytes())"
    )
    command = [sys.executable, "-c", code, str(tmp_path)]
    there = subprocess.run(command, capture_output=True, check=True).stdout
    assert there == cubes.meshes[-1].vertices.numpy().tobytes()


def test_icons_are_for_training_or_for_test_never_both(monkeypatch, tmp_path):
    # the default size, with the same cube everywhere
    module = sys.modules["equigeo.datasets.engraved_cubes"]
    vertices, faces = np.zeros((252, 3)), np.zeros((500, 3), np.int64)
    monkeypatch.setattr(module, "engrave_cube", lambda *_: (vertices, faces))
    monkeypatch.setattr(module, "draw_icon", lambda *_: None)
    cubes = engraved_cubes(cache=tmp_path)
    assert [int(cubes.in_train.sum()), int((~cubes.in_train).sum())] == [3740, 660]
    for split, number in (("10", 100), ("16", 160), ("folder", 170)):
        train, test = split_indices(cubes, split)
        assert not set(cubes.groups[train].tolist()) & set(cubes.groups[test].tolist())
        assert cubes.labels[train].bincount().tolist() == [number] * 22
    icons = [int(name.split("/")[1]) for name in cubes.names]
    assert {icons[i] for i in train} == set(range(17))
    assert {icons[i] for i in test} == {17, 18, 19}


def test_arguments_out_of_range_raise(tmp_path):
    for arguments, message in (
        ({"seed": -1}, "seed must be at least 0"),
        ({"classes": 1}, "classes must be from 2 to 22, got 1"),
        ({"classes": 23}, "classes must be from 2 to 22, got 23"),
        ({"icons": 1}, "icons must be at least 2"),
        ({"placements": 0}, "placements must be positive"),
        ({"faces": 501}, "faces must be even"),
        *(({n: 2.5}, f"^{n} must be an integer") for n in ("classes", "icons", "placements")),
    ):
        error = TypeError if "integer" in message else ValueError
        refused(message, engraved_cubes, **arguments, cache=tmp_path, error=error)
    assert list(tmp_path.iterdir()) == []
