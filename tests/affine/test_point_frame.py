"""The frame of a cloud moves with the cloud, up to the signs of its axes."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from equigeo.affine import PointFrame
from equigeo.groups import SO, Affine, GLPlus, LinearGroup, Similarity, finite_rotations
from tests.wrong_inputs import refused

GROUPS = [SO(3), Similarity(3), GLPlus(3)]
CLOSE = {"rtol": 0, "atol": 1e-10}


def clouds(seed: int = 0, batch: int = 2) -> Tensor:
    """Lopsided clouds of 40 points with three different axes."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.rand(batch, 40, 3, dtype=torch.float64, generator=generator)
    return x ** torch.tensor([1.0, 3.0, 6.0], dtype=torch.float64) * torch.tensor([4.0, 2.0, 1.0])


def proper(group: LinearGroup, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    affine = Affine(group)
    g = affine.sample(4, radius=0.7, generator=generator)
    return g[torch.linalg.det(g) > 0]


def act(g: Tensor, x: Tensor) -> Tensor:
    return x @ g[:3, :3].mT + g[:3, 3]


def nearest_signs(change: Tensor) -> Tensor:
    """The element of the dihedral group next to each matrix."""
    group = finite_rotations("dihedral").h
    distance = (change[:, None] - group).flatten(2).norm(dim=2)
    return group[distance.argmin(1)]


@pytest.mark.parametrize("group", GROUPS, ids=str)
@given(seed=st.integers(0, 10**6))
@settings(max_examples=10)
def test_frame_moves_with_the_cloud(group: LinearGroup, seed: int) -> None:
    frame, x = PointFrame(group), clouds(seed % 7)
    before, seen = frame.elements(x), frame(x)
    for g in proper(group, seed):
        after = frame.elements(act(g, x))
        change = torch.linalg.solve(g @ before, after)
        signs = nearest_signs(change[:, :3, :3])
        torch.testing.assert_close(change[:, :3, :3], signs, **CLOSE)
        torch.testing.assert_close(change[:, :3, 3], torch.zeros(2, 3).double(), **CLOSE)
        torch.testing.assert_close(frame(act(g, x)), seen @ signs, **CLOSE)


@pytest.mark.parametrize(
    ("group", "larger"), [(SO(3), Similarity(3)), (Similarity(3), GLPlus(3))], ids=str
)
def test_smaller_groups_do_not_follow_larger_ones(group: LinearGroup, larger: LinearGroup) -> None:
    frame, x = PointFrame(group), clouds()
    g = proper(larger, 3)[0]
    change = torch.linalg.solve(g @ frame.elements(x), frame.elements(act(g, x)))
    assert float((change[:, :3, :3] - nearest_signs(change[:, :3, :3])).abs().max()) > 0.01


def test_frames_are_what_they_are_said_to_be() -> None:
    x = clouds()
    seen = PointFrame(Similarity(3))(x)
    moments = (seen.mT @ seen / 40).diagonal(dim1=1, dim2=2)
    torch.testing.assert_close(moments.mean(1), torch.ones(2).double(), **CLOSE)
    assert bool((moments.diff(dim=1) < 0).all())
    rigid = PointFrame(SO(3))(x)
    # cdist takes roots of differences of squares up to 21: the root of 21 epsilon is 7e-8.
    torch.testing.assert_close(torch.cdist(rigid, rigid), torch.cdist(x, x), rtol=0, atol=1e-7)
    white = PointFrame(GLPlus(3))(x)
    identity = torch.eye(3, dtype=torch.float64).expand(2, 3, 3)
    torch.testing.assert_close(white.mT @ white / 40, identity, **CLOSE)
    fourth = (white * white.square().sum(-1, keepdim=True)).mT @ white / 40
    torch.testing.assert_close(fourth, torch.diag_embed(fourth.diagonal(dim1=1, dim2=2)), **CLOSE)


@pytest.mark.parametrize("group", GROUPS, ids=str)
def test_mirror_images_are_seen_mirrored(group: LinearGroup) -> None:
    frame, x = PointFrame(group), clouds(batch=1)
    mirrored, seen = frame(x * torch.tensor([-1.0, 1.0, 1.0])), frame(x)
    signs = (mirrored / seen)[0].median(0).values.round()
    assert float(signs.prod()) == -1
    torch.testing.assert_close(mirrored, seen * signs, **CLOSE)
    assert bool((torch.linalg.det(frame.elements(x)) > 0).all())


@pytest.mark.parametrize("group", GROUPS, ids=str)
def test_order_of_points_does_not_count(group: LinearGroup) -> None:
    frame, x = PointFrame(group), clouds()
    order = torch.randperm(40)
    change = torch.linalg.solve(frame.elements(x), frame.elements(x[:, order]))[:, :3, :3]
    torch.testing.assert_close(change, nearest_signs(change), **CLOSE)


@pytest.mark.parametrize("group", GROUPS, ids=str)
@pytest.mark.parametrize("shape", ["point", "line", "flat", "cube"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_degenerate_clouds_give_finite_values(
    group: LinearGroup, shape: str, dtype: torch.dtype
) -> None:
    x = clouds(batch=1).to(dtype)
    if shape == "cube":
        corner = torch.tensor([0.0, 1.0], dtype=dtype)
        x = torch.cartesian_prod(corner, corner, corner)[None]
    else:
        x[..., {"point": 0, "line": 1, "flat": 2}[shape] :] = 3.0
    frame = PointFrame(group)
    assert frame(x).dtype == dtype
    assert bool(torch.isfinite(frame(x)).all())
    assert bool(torch.isfinite(frame.elements(x)).all())


def test_bad_input_is_named() -> None:
    refused(r"SO\(3\), Similarity\(3\) or GLPlus\(3\), got SO\(2\)", PointFrame, SO(2))
    refused(r"\(batch, points, 3\)", PointFrame(SO(3)), torch.rand(5, 3))
    refused(r"\(batch, points, 3\)", PointFrame(SO(3)), torch.rand(1, 0, 3))
    refused("must be floating", PointFrame(SO(3)), torch.rand(1, 5, 3).long())
    for value in (torch.nan, torch.inf):
        refused("points must be finite", PointFrame(SO(3)), torch.full((1, 5, 3), value))
