"""The kinds of linear groups: dimensions, defining equations, what only some have."""

from __future__ import annotations

import math

import pytest
import torch

from equigeo.groups import GL, SL, SO, Affine, GLPlus, O, Scaling, Similarity

KINDS = [O, SO, SL, GL, GLPlus, Scaling, Similarity]


@pytest.mark.parametrize(
    ("kind", "dimensions"),
    [(O, (1, 3)), (SO, (1, 3)), (SL, (3, 8)), (GLPlus, (4, 9)), (Scaling, (1, 1))],
)
def test_dimensions_are_those_of_the_catalogue(kind, dimensions):
    assert (len(kind(2).generators()), len(kind(3).generators())) == dimensions
    assert len(Affine(kind(3)).generators()) == dimensions[1] + 3


def test_contains_refuses_what_is_outside():
    mirror = torch.diag(torch.tensor([-1.0, 1.0, 1.0]))
    assert O(3).contains(mirror)
    assert not SO(3).contains(mirror)
    assert not GLPlus(3).contains(mirror)
    assert not SL(3).contains(2 * torch.eye(3))
    assert not O(3).contains(torch.full((3, 3), math.nan))
    assert not GL(3).contains(torch.zeros(3, 3))
    assert not Scaling(3).contains(-torch.eye(3))
    assert not Similarity(3).contains(torch.diag(torch.tensor([1.0, 1.0, 2.0])))
    assert not Affine(O(3)).contains(2 * torch.eye(4))


def test_compact_groups_alone_have_a_uniform_distribution():
    assert {kind for kind in KINDS if hasattr(kind, "haar")} == {O, SO}
