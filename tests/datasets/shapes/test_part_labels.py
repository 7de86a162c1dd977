from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from equigeo.datasets.shapes.articulated_shapes import SHAPE_TEMPLATES
from equigeo.datasets.shapes.generate_shape import generate_instance, generate_shape
from equigeo.datasets.shapes.part_labels import (
    PART_TEMPLATES,
    PARTS,
    bone_parts,
    nearest_bones,
    part_labels,
)
from equigeo.datasets.shapes.rest_surface import rest_surface
from equigeo.datasets.shapes.shape_template import Limb, ShapeTemplate
from equigeo.datasets.shapes.skeleton import Skeleton

_BY_NAME = {template.name: template for template in SHAPE_TEMPLATES}


def _shares(shape, template):
    corners = shape.unplaced[shape.faces]
    area = np.linalg.norm(
        np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]), axis=1
    )
    return np.bincount(part_labels(shape, template), area, minlength=len(PARTS)) / area.sum()


@pytest.mark.parametrize("template", PART_TEMPLATES, ids=lambda t: t.name)
def test_every_bone_has_a_part(template):
    skeleton, parts = Skeleton.from_template(template), bone_parts(template)
    assert len(parts) == skeleton.num_bones
    names = [PARTS[part] for part in parts]
    assert {"head", "torso", "upper limb", "lower limb"} <= set(names)
    for bone, parent in enumerate(skeleton.parents):  # limbs are lower below what is upper
        if names[bone] in {"lower limb", "hand or foot"}:
            assert names[parent] in {"upper limb", "lower limb"}


def test_left_and_right_have_the_same_parts():
    for template in PART_TEMPLATES:
        skeleton, parts = Skeleton.from_template(template), bone_parts(template)
        middles = (skeleton.starts + skeleton.ends) / 2
        off = np.flatnonzero(np.abs(middles[:, 1]) > 0.05)
        for bone in off:
            mirrored = np.linalg.norm(middles - middles[bone] * [1, -1, 1], axis=1)
            assert parts[mirrored.argmin()] == parts[bone]


def test_templates_without_parts_are_refused():
    with pytest.raises(ValueError, match=r"'octopus': limb 'head' has 2 bones and 0 parts"):
        bone_parts(_BY_NAME["octopus"])


@pytest.mark.parametrize("template", PART_TEMPLATES, ids=lambda t: t.name)
def test_at_rest_a_face_belongs_to_the_bone_next_to_it(template):
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


def _limbs(template):
    """Number of the copy of a limb that each bone is in."""
    numbers = []
    for limb in template.limbs:
        for _ in range(limb.around * (1 + limb.mirror)):
            numbers += [numbers[-1] + 1 if numbers else 0] * (len(limb.points) - 1)
    return numbers


@pytest.mark.parametrize("template", PART_TEMPLATES, ids=lambda t: t.name)
def test_every_part_is_one_patch_on_each_limb(template):
    # No stray faces: connected patches are as many as there are parts of limbs
    shape = generate_instance(template, 500, seed=0, instance=1)
    labels = part_labels(shape, template)
    ends = np.stack((shape.faces, np.roll(shape.faces, -1, axis=1)), axis=-1).reshape(-1, 2)
    order = np.lexsort(np.sort(ends, axis=1).T)
    one, other = (order // 3).reshape(-1, 2).T
    same = labels[one] == labels[other]
    graph = sparse.coo_matrix((same[same], (one[same], other[same])), (500, 500))
    # Heads and tails are one patch, with ears and all; of the others there is one on each limb.
    pairs = {(PARTS[p], n) for p, n in zip(bone_parts(template), _limbs(template), strict=True)}
    expected = {(part, 0 if part in {"head", "tail"} else limb) for part, limb in pairs}
    assert connected_components(graph, directed=False)[0] == len(expected)


def test_around_a_bent_joint_the_halving_plane_decides():
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


@pytest.mark.full
def test_labels_do_not_depend_on_the_number_of_faces():
    # The same animal at 250 and 1,000 faces; another animal is the negative control
    man, horse = _BY_NAME["man"], _BY_NAME["horse"]
    coarse, fine = (_shares(generate_instance(man, n, 0, 0), man) for n in (250, 1000))
    other = _shares(generate_instance(horse, 1000, 0, 0), horse)
    # Simplification takes from thin limbs: hands and feet lose a fifth of their area.
    assert np.abs(coarse - fine).max() < 0.04
    assert np.abs(other - fine).max() > 0.1


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
    shape, (vertices, faces) = generate_instance(man, 200, 3, 1), generate_shape(man, 200, 3, 1)
    assert np.array_equal(shape.vertices, vertices)
    assert np.array_equal(shape.faces, faces)
