"""Layers and networks of clouds under the public helper."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from equigeo.affine import AffinePointNet, AffinePointNetConfig
from equigeo.groups import (
    SL,
    SO,
    Affine,
    GLPlus,
    GroupSamples,
    LinearGroup,
    Similarity,
    finite_rotations,
)
from equigeo.reps import Points, Regular, Trivial
from equigeo.testing import assert_equivariant, equivariance_error
from tests.affine.models.test_affine_point_net import cloud
from tests.affine.points.test_point_group_conv import Network, draw, random

pytestmark = pytest.mark.filterwarnings("ignore::equigeo.affine.WindowWarning")


@pytest.mark.parametrize("group", [SO(3), SL(3), GLPlus(3), GLPlus(2)], ids=str)
def test_points_and_samples_move_together(group: LinearGroup) -> None:
    net, f, affine = Network(group), random(1, 2, 20), Affine(group)

    def features(points: Tensor, samples: GroupSamples) -> Tensor:
        return net(f, points, samples, samples).detach().movedim(1, -1)

    assert_equivariant(
        features,
        [Points(affine), None],
        Trivial(affine, 5),
        inputs=[random(1, 20, group.n, seed=1), draw(group)],
        condition=1e3,
    )


def test_closed_sets_carry_the_regular_representation() -> None:
    net, samples, f = Network(SO(3)), finite_rotations("octahedral"), random(1, 2, 20)

    def features(points: Tensor) -> Tensor:
        return net(f, points, samples, samples).detach().movedim(2, -1)

    assert_equivariant(
        features,
        [Points(Affine(SO(3)))],
        Regular(samples),
        inputs=[random(1, 20, 3, seed=1)],
        elements=SO(3).convert(samples.h[[2, 7, 13]], Affine(SO(3))),
        condition=1e3,
    )


@pytest.mark.parametrize(
    ("name", "group"), [("SO", SO(3)), ("Similarity", Similarity(3)), ("GLPlus", GLPlus(3))]
)
def test_networks_are_invariant_to_all_that_is_proper(name: str, group: LinearGroup) -> None:
    torch.manual_seed(0)
    config = AffinePointNetConfig(
        5, group=name, centers=(24, 8), radii=(0.8, 1.5), channels=(6, 8, 10), rank=3
    )
    model, affine = AffinePointNet(config).double().eval(), Affine(group)
    elements = affine.testing_elements(torch.Generator().manual_seed(0))
    proper = torch.linalg.det(elements) > 0

    def logits(points: Tensor) -> Tensor:
        return model(points).detach()

    laws = {"rep_in": [Points(affine)], "rep_out": Trivial(affine, 5), "inputs": [cloud()]}
    assert_equivariant(logits, **laws, elements=elements[proper], condition=1e4)
    if not proper.all():
        assert equivariance_error(logits, **laws, elements=elements[~proper]) > 1e-4
