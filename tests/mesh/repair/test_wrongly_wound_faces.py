"""The winding of closed, open, several and twisted parts."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from equigeo.mesh.repair.edge_table import EdgeTable
from equigeo.mesh.repair.nonmanifold_faces import nonmanifold_faces
from equigeo.mesh.repair.wrongly_wound_faces import wrongly_wound_faces
from tests.mesh.repair.triangle_soups import OCTAHEDRON, OCTAHEDRON_POINTS, moebius_strip


@settings(max_examples=100, deadline=None)
@given(st.lists(st.booleans(), min_size=8, max_size=8), st.permutations(range(8)))
def test_any_winding_of_a_closed_surface_becomes_outward(
    flips: list[bool], order: list[int]
) -> None:
    flipped = np.where(np.array(flips)[:, None], OCTAHEDRON[:, ::-1], OCTAHEDRON)
    faces = flipped[order]
    turn, nonorientable = wrongly_wound_faces(OCTAHEDRON_POINTS, faces, EdgeTable.from_faces(faces))
    assert turn.tolist() == np.array(flips)[order].tolist()
    assert nonorientable == 0


def test_an_open_surface_turns_its_minority() -> None:
    faces = OCTAHEDRON[:5].copy()
    faces[[1, 3]] = faces[[1, 3], ::-1]
    turn, _ = wrongly_wound_faces(OCTAHEDRON_POINTS, faces, EdgeTable.from_faces(faces))
    assert turn.tolist() == [False, True, False, True, False]


def test_parts_are_wound_each_for_itself() -> None:
    faces = np.concatenate([OCTAHEDRON, OCTAHEDRON[:, ::-1] + 6])
    points = np.concatenate([OCTAHEDRON_POINTS, OCTAHEDRON_POINTS + 5])
    turn, _ = wrongly_wound_faces(points, faces, EdgeTable.from_faces(faces))
    assert turn.tolist() == [False] * 8 + [True] * 8


@pytest.mark.parametrize("seed", range(5))
def test_a_moebius_strip_is_cut_at_one_seam_however_it_is_wound(seed: int) -> None:
    random = np.random.default_rng(seed)
    faces = moebius_strip(41)
    flips = random.random(len(faces)) < 0.5
    faces = np.where(flips[:, None], faces[:, ::-1], faces)[random.permutation(len(faces))]
    edges = EdgeTable.from_faces(faces)
    turn, nonorientable = wrongly_wound_faces(random.random((41, 3)), faces, edges)
    assert nonorientable == 1
    wound = np.where(turn[:, None], faces[:, ::-1], faces)
    edges = EdgeTable.from_faces(wound)
    assert nonmanifold_faces(edges, edges.forward).sum() == 1


def test_a_twisted_part_beside_a_sound_one_leaves_it_alone() -> None:
    faces = np.concatenate([OCTAHEDRON, moebius_strip(21) + 6])
    points = np.concatenate([OCTAHEDRON_POINTS, np.random.default_rng(0).random((21, 3))])
    turn, nonorientable = wrongly_wound_faces(points, faces, EdgeTable.from_faces(faces))
    assert nonorientable == 1
    assert not turn[:8].any()
