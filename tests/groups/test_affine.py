"""Affine groups: elements and translations."""

from __future__ import annotations

import pytest
import torch

from equigeo.groups import GL, SL, SO, Affine, GLPlus, Group, O, Scaling, Similarity

KINDS = [O, SO, SL, GL, GLPlus, Scaling, Similarity]

LINEAR = [kind(n) for kind in KINDS for n in (2, 3, 4)]

GROUPS: list[Group] = [*LINEAR, *(Affine(group) for group in LINEAR if group.n < 4)]


@pytest.fixture(params=GROUPS, ids=str)
def group(request: pytest.FixtureRequest) -> Group:
    return request.param


def test_affine_elements_act_before_they_translate():
    group = Affine(GL(2))
    g = group.element(2 * torch.eye(2), torch.tensor([1.0, 3.0]))
    assert g.tolist() == [[2, 0, 1], [0, 2, 3], [0, 0, 1]]
    assert group.element(torch.eye(2).expand(4, 1, 2, 2), torch.zeros(5, 2)).shape == (4, 5, 3, 3)
