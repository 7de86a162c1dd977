"""Heads: where the orientation is read, and what a window leaves out."""

from __future__ import annotations

import math

import torch

from equigeo.affine import HeadConfig
from equigeo.affine.models.heads import MaxHead, OrientationHead, make_head
from equigeo.groups import equidistant_rotations, rotation_log


def test_head_reads_all_logits_where_one_score_looks() -> None:
    head, rotations = OrientationHead(4, 3, window=180.0).double(), equidistant_rotations(8)
    torch.nn.init.constant_(head.attend.weight, 10.0)
    x = torch.rand(2, 4, 8, 1, 1, dtype=torch.float64)
    x[:, :, 5] += 5.0
    torch.testing.assert_close(head(x, rotations), head.classify(x[:, :, 5, 0, 0]))
    torch.testing.assert_close(head(x.roll(3, 2), rotations), head(x, rotations))


def test_window_of_the_head_leaves_out_what_stands_on_its_head() -> None:
    head, rotations = OrientationHead(4, 3, window=60.0).double(), equidistant_rotations(8)
    weight = head.attention(torch.rand(2, 4, 8, dtype=torch.float64), rotations)
    torch.testing.assert_close(weight.sum(1), torch.ones(2, dtype=torch.float64))
    angle = rotation_log(rotations.h).flatten().abs()
    assert float(weight[:, angle > 3].max().detach()) < math.exp(-((180 / 60) ** 4))
    assert (weight.argmax(1) == angle.argmin()).all()  # untrained, the window decides alone


def test_prior_begins_as_none_and_learns_where_images_stand() -> None:
    rotations = equidistant_rotations(8)
    plain, head = OrientationHead(4, 3).double(), OrientationHead(4, 3, prior=2).double()
    head.load_state_dict(plain.state_dict() | {"prior": head.prior})
    x = torch.rand(2, 4, 8, 1, 1, dtype=torch.float64)
    torch.testing.assert_close(head(x, rotations), plain(x, rotations))
    torch.testing.assert_close(head(x.roll(3, 2), rotations), head(x, rotations))
    head(x, rotations)[:, 0].sum().backward()
    assert head.prior.grad is not None
    assert head.prior.grad.norm() > 0
    with torch.no_grad():
        head.prior[0] = 10.0  # the cosine of the angle itself
    weight = head.attention(x[..., 0, 0], rotations)
    angle = rotation_log(rotations.h).flatten().abs()
    assert (weight.argmax(1) == angle.argmin()).all()


def test_prior_reads_angles_with_errors_in_training_alone() -> None:
    head, rotations = OrientationHead(4, 3, prior=2, prior_noise=45.0), equidistant_rotations(8)
    torch.nn.init.ones_(head.prior)
    x = torch.rand(1, 4, 8).expand(64, -1, -1)  # one image, again and again
    seen = head.attention(x, rotations)
    assert float(seen.detach().var(0).max()) > 1e-3
    # Turned by at most an eighth of a circle, which is one sample.
    assert seen.argmax(1).unique().numel() <= 3
    exact = head.eval().attention(x, rotations)
    torch.testing.assert_close(exact, exact[:1].expand_as(exact))


def test_weights_without_a_prior_are_those_of_none() -> None:
    head, state = OrientationHead(4, 3, prior=2), OrientationHead(4, 3).state_dict()
    del state["prior"]
    torch.nn.init.ones_(head.prior)
    head.load_state_dict(state)
    assert not head.prior.any()


def test_configuration_chooses_the_head() -> None:
    assert isinstance(make_head(HeadConfig(features=4, kind="max"), 3), MaxHead)
    head = make_head(HeadConfig(features=4, window=30.0), 3)
    assert isinstance(head, OrientationHead)
    assert (head.window, head.classify.out_features, len(head.prior)) == (30.0, 3, 8)
    assert head.prior_noise == 45.0
