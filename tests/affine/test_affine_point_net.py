"""The network for clouds and its frame: invariance of each group, configuration, export."""

import json

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from equigeo.affine import AffinePointNet, AffinePointNetConfig, PointFrame
from equigeo.groups import SO, Affine, GLPlus, LinearGroup, Similarity, finite_rotations
from tests.draws import generator
from tests.tier import tier
from tests.wrong_inputs import refused

GROUPS: dict[str, LinearGroup] = {"SO": SO(3), "Similarity": Similarity(3), "GLPlus": GLPlus(3)}


CLOSE = {"rtol": 0, "atol": 1e-10}
MIRROR = torch.tensor([-1.0, 1.0, 1.0])


def small(**settings: object) -> AffinePointNet:
    torch.manual_seed(0)
    chosen: dict[str, object] = {
        "centers": (24, 8), "neighbors": (6, 5), "radii": (0.8, 1.5), "channels": (8, 10, 12),
        "rank": 3, **settings,
    }  # fmt: skip
    return AffinePointNet(AffinePointNetConfig(5, **chosen)).double().eval()


def clouds(seed: int = 0, batch: int = 2) -> Tensor:
    """Lopsided clouds of 40 points with three different axes."""
    x = torch.rand(batch, 40, 3, dtype=torch.float64, generator=generator(seed))
    return x ** torch.tensor([1.0, 3.0, 6.0], dtype=torch.float64) * torch.tensor([4.0, 2.0, 1.0])


def proper(group: LinearGroup, seed: int = 0) -> Tensor:
    g = Affine(group).sample(4, radius=0.7, generator=generator(seed))
    return g[torch.linalg.det(g) > 0]


def act(g: Tensor, x: Tensor) -> Tensor:
    return x @ g[:3, :3].mT + g[:3, 3]


def difference(a: Tensor, b: Tensor) -> float:
    return float((a - b).detach().abs().max())


@pytest.mark.parametrize("rotations", tier(["dihedral"], ["dihedral", "octahedral"]))
@pytest.mark.parametrize("name", GROUPS)
def test_network_is_invariant_to_its_group(name: str, rotations: str) -> None:
    model, x = small(group=name, rotations=rotations), clouds()
    expected = model(x)
    assert difference(*expected) > 1e-3  # clouds are told apart
    for g in proper(GROUPS[name], seed=1):
        torch.testing.assert_close(model(act(g, x)), expected, **CLOSE)
    torch.testing.assert_close(model(x[:, torch.randperm(40)]), expected, **CLOSE)
    assert difference(model(x * MIRROR), expected) > 1e-4  # and their mirror images


every_group = pytest.mark.parametrize("group", GROUPS.values(), ids=str)


class Turned(nn.Module):
    """A frame with other signs or another order of the axes."""

    def __init__(self, frame: nn.Module, rotation: list[list[float]]) -> None:
        super().__init__()
        self.frame, self.rotation = frame, torch.tensor(rotation, dtype=torch.float64)

    def forward(self, points: Tensor) -> Tensor:
        return self.frame(points) @ self.rotation


FLIP = [[1.0, 0, 0], [0, -1, 0], [0, 0, -1]]
EXCHANGE = [[0.0, 1, 0], [-1, 0, 0], [0, 0, 1]]


@pytest.mark.parametrize(
    ("rotations", "change", "same"),
    [("dihedral", FLIP, True), ("dihedral", EXCHANGE, False), ("octahedral", EXCHANGE, True)],
)
def test_samples_cover_signs_and_order_of_axes(
    rotations: str, change: list[list[float]], same: bool
) -> None:
    model, x = small(rotations=rotations), clouds()
    expected = model(x)
    model.frame = Turned(model.frame, change)
    error = difference(model(x), expected)
    assert error < CLOSE["atol"] if same else error > 1e-4


def test_configuration_rebuilds_the_network() -> None:
    model, x = small(group="GLPlus"), clouds()
    values = json.loads(json.dumps(model.config.to_dict()))
    assert values["num_classes"] == 5
    for config in (values, model.config):
        again = AffinePointNet.from_config(config).double().eval()
        again.load_state_dict(model.state_dict())
        assert torch.equal(again(x), model(x))


@pytest.mark.parametrize("name", tier(["default"], ["default", *GROUPS]))
def test_presets_classify_small_and_large_clouds(name: str) -> None:
    model = AffinePointNet.preset(name, num_classes=3).eval()
    for points in (1, 20, 400):
        logits = model(torch.rand(2, points, 3))
        assert logits.shape == (2, 3)
        assert bool(torch.isfinite(logits).all())


def test_gradients_reach_every_parameter_and_the_points() -> None:
    model, x = small().train(), clouds().requires_grad_()
    model(x).square().sum().backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert bool(torch.isfinite(parameter.grad).all()), name
    assert bool(torch.isfinite(x.grad).all())


@pytest.mark.full
def test_exports_for_any_number_of_clouds() -> None:
    model = small(centers=(4, 3))
    shapes = {"points": {0: torch.export.Dim("clouds")}}
    program = torch.export.export(model, (clouds(batch=3),), dynamic_shapes=shapes)
    torch.testing.assert_close(program.module()(clouds(batch=5)), model(clouds(batch=5)), **CLOSE)


@every_group
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


def nearest_signs(change: Tensor) -> Tensor:
    """The element of the dihedral group next to each matrix."""
    group = finite_rotations("dihedral").h
    distance = (change[:, None] - group).flatten(2).norm(dim=2)
    return group[distance.argmin(1)]


@pytest.mark.parametrize(
    ("name", "larger"), [("SO", Similarity(3)), ("Similarity", GLPlus(3))], ids=str
)
def test_smaller_groups_do_not_follow_larger_ones(name: str, larger: LinearGroup) -> None:
    model, frame, x = small(group=name), PointFrame(GROUPS[name]), clouds()
    moved = act(g := proper(larger, seed=3)[0], x)
    assert difference(model(moved), model(x)) > 1e-4
    change = torch.linalg.solve(g @ frame.elements(x), frame.elements(moved))[:, :3, :3]
    assert difference(change, nearest_signs(change)) > 0.01


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


@every_group
def test_frames_mirror_with_the_cloud_and_ignore_the_order_of_points(group: LinearGroup) -> None:
    frame, x = PointFrame(group), clouds()
    change = torch.linalg.solve(frame.elements(x), frame.elements(x[:, torch.randperm(40)]))
    change = change[:, :3, :3]
    torch.testing.assert_close(change, nearest_signs(change), **CLOSE)
    mirrored, seen = frame(x[:1] * MIRROR), frame(x[:1])
    signs = (mirrored / seen)[0].median(0).values.round()
    assert float(signs.prod()) == -1
    torch.testing.assert_close(mirrored, seen * signs, **CLOSE)
    assert bool((torch.linalg.det(frame.elements(x)) > 0).all())


@every_group
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


def test_wrong_points_and_presets_raise() -> None:
    refused("preset", AffinePointNet.preset, "other")
    refused(r"\(batch, points, 3\)", small(), torch.rand(4, 2))
    refused(r"SO\(3\), Similarity\(3\) or GLPlus\(3\), got SO\(2\)", PointFrame, SO(2))
    frame = PointFrame(SO(3))
    refused(r"\(batch, points, 3\)", frame, torch.rand(5, 3))
    refused(r"\(batch, points, 3\)", frame, torch.rand(1, 0, 3))
    refused("must be floating", frame, torch.rand(1, 5, 3).long())
    for value in (torch.nan, torch.inf):
        refused("points must be finite", frame, torch.full((1, 5, 3), value))


def test_saved_configuration_is_read() -> None:
    config = AffinePointNetConfig(
        4, "GLPlus", "octahedral", (24, 8), (6, 5), (0.8, 1.5), (8, 10, 12), 3, 4, 0.1
    )
    saved = {
        "num_classes": 4, "group": "GLPlus", "rotations": "octahedral", "centers": [24, 8],
        "neighbors": [6, 5], "radii": [0.8, 1.5], "channels": [8, 10, 12], "rank": 3,
        "gaussians": 4, "dropout": 0.1,
    }  # fmt: skip
    assert AffinePointNetConfig.from_dict(saved) == config
    assert config.to_dict() == saved
    changed = AffinePointNet.preset("SO", 5, rank=8, centers=(64, 16)).config
    found = (changed.group, changed.rank, changed.centers, changed.radii)
    assert found == ("SO", 8, (64, 16), (0.2, 0.4))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"group": "SL"}, "group must be one of"),
        ({"rotations": "cyclic"}, "rotations must be"),
        ({"centers": (8, 16)}, "must not become more"),
        ({"radii": (1.0,)}, "radii must be 2 numbers"),
        ({"radii": (1.0, 0.0)}, "radii must be positive"),
        ({"channels": (1, 0, 2)}, "channels must be at least 1"),
        ({"rank": 0}, "rank must be at least 1"),
    ],
)
def test_bad_settings_raise(settings: dict[str, object], message: str) -> None:
    refused(message, AffinePointNetConfig, 5, **settings)
    refused("unknown", AffinePointNetConfig.from_dict, {"num_classes": 5, "colour": 1})
