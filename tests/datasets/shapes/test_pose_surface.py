import numpy as np
import pytest
import torch

from equigeo.datasets.shapes.articulated_shapes import SHAPE_TEMPLATES
from equigeo.datasets.shapes.pose_surface import pose_surface
from equigeo.datasets.shapes.rest_surface import rest_surface
from equigeo.datasets.shapes.shape_template import Limb, ShapeTemplate
from equigeo.datasets.shapes.skeleton import Skeleton
from equigeo.datasets.shapes.surface_defect import surface_defect
from equigeo.testing import tolerance

_COUNT = 1500  # what articulated_shapes uses: surfaces are shared between the tests


@pytest.mark.parametrize("template", SHAPE_TEMPLATES, ids=lambda t: t.name)
def test_the_rest_surface_of_a_template_is_sound(template):
    rest = rest_surface(template, _COUNT)
    assert len(rest.faces) == _COUNT
    assert surface_defect(rest.vertices, rest.faces, template.genus) is None
    limbs = rest.weights.shape[1]
    np.testing.assert_allclose(rest.weights.sum(axis=1), 1.0, **tolerance(torch.float64, limbs))


@pytest.mark.parametrize("template", SHAPE_TEMPLATES, ids=lambda t: t.name)
def test_poses_are_nearly_isometric(template):
    rest = rest_surface(template, _COUNT)
    edges = rest.faces[:, :2]
    lengths = np.linalg.norm(np.diff(rest.vertices[edges], axis=1), axis=2)
    for seed in range(3):
        posed = pose_surface(rest, np.random.default_rng(seed))
        moved = np.linalg.norm(np.diff(posed[edges], axis=1), axis=2)
        assert abs(np.median(moved / lengths) - 1) < 0.1
        # Lengths change at joints alone.
        assert moved.sum() == pytest.approx(lengths.sum(), rel=0.2)


def test_a_skeleton_without_freedom_only_changes_its_proportions():
    limb = Limb("rod", ((0, 0, 0), (1, 0, 0), (2, 0, 0)), (0.2, 0.2, 0.2), (0, 0))
    rest = rest_surface(ShapeTemplate("rod", (limb,)), 200)
    posed = pose_surface(rest, np.random.default_rng(0))
    assert np.abs(posed - rest.vertices).max() < 0.05 * 2 + 0.08 * 0.2 + 0.01


def test_limbs_that_are_apart_stay_apart():
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


def test_copies_of_a_limb_are_mirrored_and_turned():
    body = Limb("body", ((0, 0, 0), (0, 0, 1)), (0.1, 0.1), (0,))
    arm = Limb(
        "arm", ((0, 0.1, 1), (0, 1, 1)), (0.1, 0.1), (30,), "body", axis=(0, 0, 1), mirror=True
    )
    legs = Limb("leg", ((0.1, 0, 0), (1, 0, 0)), (0.1, 0.1), (30,), "body", around=4)
    skeleton = Skeleton.from_template(ShapeTemplate("star", (body, arm, legs)))
    assert skeleton.parents.tolist() == [-1, 0, 0, 0, 0, 0, 0]
    near = tolerance(torch.float64, terms=3)
    np.testing.assert_allclose(skeleton.ends[1:3], [[0, 1, 1], [0, -1, 1]], **near)
    np.testing.assert_allclose(
        skeleton.ends[3:], [[1, 0, 0], [0, 1, 0], [-1, 0, 0], [0, -1, 0]], **near
    )


def test_distances_to_a_bone_are_those_to_its_segment():
    limb = Limb("rod", ((0, 0, 0), (2, 0, 0)), (0.1, 0.3), (0,))
    skeleton = Skeleton.from_template(ShapeTemplate("rod", (limb,)))
    points = np.array([[1.0, 2.0, 0.0], [-3.0, 0.0, 0.0], [2.0, 0.0, 0.5]])
    distances, radii = skeleton.distances(points)
    np.testing.assert_allclose(distances[:, 0], [2.0, 3.0, 0.5])
    np.testing.assert_allclose(radii[:, 0], [0.2, 0.1, 0.3])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"axis": (2.0, 0.0, 0.0)}, "limb 'rod': axis lies along a bone"),
        ({"radii": (0.1,)}, "limb 'rod': 3 points need 3 radii and 2 bends"),
        ({"bends": (0, 0, 0)}, "limb 'rod': 3 points need 3 radii and 2 bends"),
    ],
)
def test_a_limb_that_makes_no_sense_is_refused(change, message):
    sound = {"points": ((0, 0, 0), (1, 0, 0), (2, 0, 1)), "radii": (0.1,) * 3, "bends": (0, 0)}
    limb = Limb(**{"name": "rod", **sound, **change})
    with pytest.raises(ValueError, match=message):
        Skeleton.from_template(ShapeTemplate("rod", (limb,)))
