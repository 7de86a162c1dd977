"""The network for clouds: invariance of each group, configuration, export."""

import json

import pytest
import torch
from torch import Tensor, nn

from equigeo.affine import AffinePointNet, AffinePointNetConfig
from equigeo.groups import SO, GLPlus, LinearGroup, Similarity
from tests.affine.test_point_frame import act, proper
from tests.tier import tier

GROUPS: dict[str, LinearGroup] = {"SO": SO(3), "Similarity": Similarity(3), "GLPlus": GLPlus(3)}
EXACT = {"rtol": 0, "atol": 1e-10}


def small(**settings: object) -> AffinePointNet:
    torch.manual_seed(0)
    chosen: dict[str, object] = {
        "centers": (24, 8), "neighbors": (6, 5), "radii": (0.8, 1.5), "channels": (8, 10, 12),
        "rank": 3, **settings,
    }  # fmt: skip
    return AffinePointNet(AffinePointNetConfig(5, **chosen)).double().eval()


def cloud(batch: int = 2) -> Tensor:
    generator = torch.Generator().manual_seed(0)
    x = torch.rand(batch, 50, 3, dtype=torch.float64, generator=generator)
    return x ** torch.tensor([1.0, 3.0, 6.0], dtype=torch.float64) * torch.tensor([4.0, 2.0, 1.0])


@pytest.mark.parametrize("rotations", tier(["dihedral"], ["dihedral", "octahedral"]))
@pytest.mark.parametrize("name", GROUPS)
def test_is_invariant_to_its_group(name: str, rotations: str) -> None:
    model, x = small(group=name, rotations=rotations), cloud()
    expected = model(x)
    assert float(expected.diff(dim=0).detach().abs().max()) > 1e-3  # clouds are told apart
    for g in proper(GROUPS[name], seed=1):
        torch.testing.assert_close(model(act(g, x)), expected, **EXACT)
    order = torch.randperm(50)
    torch.testing.assert_close(model(x[:, order]), expected, **EXACT)


@pytest.mark.parametrize(
    ("name", "larger"), [("SO", Similarity(3)), ("Similarity", GLPlus(3))], ids=str
)
def test_is_not_invariant_to_more(name: str, larger: LinearGroup) -> None:
    model, x = small(group=name), cloud()
    g = proper(larger, seed=3)[0]
    assert float((model(act(g, x)) - model(x)).detach().abs().max()) > 1e-4


@pytest.mark.parametrize("name", GROUPS)
def test_mirror_images_can_be_told_apart(name: str) -> None:
    model, x = small(group=name), cloud()
    mirrored = model(x * torch.tensor([-1.0, 1.0, 1.0]))
    assert float((mirrored - model(x)).detach().abs().max()) > 1e-4


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
    model, x = small(rotations=rotations), cloud()
    expected = model(x)
    model.frame = Turned(model.frame, change)
    error = float((model(x) - expected).detach().abs().max())
    assert error < EXACT["atol"] if same else error > 1e-4


def test_configuration_rebuilds_the_network() -> None:
    model, x = small(group="GLPlus"), cloud()
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
    model, x = small().train(), cloud().requires_grad_()
    model(x).square().sum().backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert bool(torch.isfinite(parameter.grad).all()), name
    assert bool(torch.isfinite(x.grad).all())


@pytest.mark.full
def test_exports_for_any_number_of_clouds() -> None:
    model = small(centers=(4, 3))
    shapes = {"points": {0: torch.export.Dim("clouds")}}
    program = torch.export.export(model, (cloud(3),), dynamic_shapes=shapes)
    torch.testing.assert_close(program.module()(cloud(5)), model(cloud(5)), **EXACT)


def test_bad_input_is_named() -> None:
    with pytest.raises(ValueError, match="preset"):
        AffinePointNet.preset("other")
    with pytest.raises(ValueError, match=r"\(batch, points, 3\)"):
        small()(torch.rand(4, 2))
