"""PointNet behind an embedding: invariant, rebuilt from its configuration, clear about errors."""

import json

import pytest
import torch

from equigeo.groups import Affine, O
from equigeo.mds import InvariantPointNet, InvariantPointNetConfig, embed
from equigeo.points import PointNet
from equigeo.reps import Points, Trivial
from equigeo.testing import assert_equivariant, equivariance_error, tolerance
from tests.wrong_inputs import refused

CLOSE = tolerance(torch.float64, 512)  # channels of the widest layer


def cloud() -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    x = torch.rand(1, 40, 3, dtype=torch.float64, generator=generator)
    return x.square() * torch.tensor([3.0, 2.0, 1.0])


@pytest.mark.parametrize(
    "settings",
    [{}, {"upright": True}, {"kind": "frames", "upright": True}],
    ids=["pointnet", "upright", "upright frames"],
)
def test_rigid_motions_change_nothing(settings):
    torch.manual_seed(0)
    model = InvariantPointNet(InvariantPointNetConfig(5, **settings)).double().eval()
    assert_equivariant(
        lambda x: model(x).detach(),
        Points(Affine(O(3))),
        Trivial(Affine(O(3)), 5),
        inputs=[cloud()],
    )


def test_the_plain_network_is_not_invariant():
    torch.manual_seed(0)
    model = PointNet(5).double().eval()
    error = equivariance_error(
        lambda x: model(x).detach(),
        Points(Affine(O(3))),
        Trivial(Affine(O(3)), 5),
        inputs=[cloud()],
    )
    assert error > 0.01


def test_scale_and_order_change_nothing():
    torch.manual_seed(0)
    model, x = InvariantPointNet.preset("pointnet", 5).double().eval(), cloud()
    torch.testing.assert_close(model(7 * x), model(x), **CLOSE)
    torch.testing.assert_close(model(x.flip(1)), model(x), **CLOSE)


@pytest.mark.parametrize(
    "config",
    [
        InvariantPointNetConfig(4),
        InvariantPointNetConfig(4, "dgcnn", {"widths": (8, 8), "features": 16}, "SO", "frames"),
        InvariantPointNetConfig(4, "transformer", {"groups": (8, 4)}, None),
        InvariantPointNetConfig(4, "pointnet++", {"widths": ((8,), (8, 16))}),
        InvariantPointNetConfig(4, upright=True),
    ],
    ids=lambda config: config.network + "-upright" * config.upright,
)
def test_configuration_rebuilds_the_network(config):
    model = InvariantPointNet(config).eval()
    saved = json.loads(json.dumps(model.config.to_dict()))
    assert saved == model.config.to_dict()
    again = InvariantPointNet.from_config(saved).eval()
    again.load_state_dict(model.state_dict())
    x = cloud().float()
    assert torch.equal(again(x), model(x))


def test_without_a_group_clouds_are_seen_as_they_stand():
    torch.manual_seed(0)
    model = InvariantPointNet(InvariantPointNetConfig(5, group=None)).double().eval()
    x = cloud()
    torch.testing.assert_close(model(3 * x + 1), model(x), **CLOSE)
    assert (model(x.flip(-1)) - model(x)).abs().max() > 1e-3
    seen = embed(x, group=None, scale="rms").y
    assert torch.equal(model(x), model.invariant.network(seen))
    assert model.flagged(x) is None


def test_symmetric_clouds_are_flagged_without_a_warning():
    model = InvariantPointNet.preset("pointnet", 5).eval()
    box = torch.cartesian_prod(*[torch.tensor([-s, s]) for s in (3.0, 2.0, 1.0)])
    cube = torch.cartesian_prod(*[torch.tensor([-1.0, 1.0])] * 3)
    x = torch.stack([cloud()[0, :8].float(), box, cube])
    assert model.flagged(x).tolist() == [False, True, True]
    assert model(x).isfinite().all()


def test_training_draws_one_frame_and_use_averages():
    config = InvariantPointNetConfig(5, kind="soft", training_kind="soft", training_sample=True)
    model = InvariantPointNet(config).double().eval()
    x = torch.cat([cloud(), cloud().flip(1)])
    calls = []
    model.invariant.network.register_forward_pre_hook(lambda *_: calls.append(1))
    model(x)
    assert len(calls) >= 1
    calls.clear()
    model.train()(x)
    assert len(calls) == 1


def test_pairs_say_which_direction_is_up():
    torch.manual_seed(0)
    model = InvariantPointNet(InvariantPointNetConfig(5, upright=True)).double().eval()
    x = cloud()
    logits, up = model.pairs(x)
    assert logits.shape == (1, 5, 6)
    torch.testing.assert_close(logits.logsumexp(-1), model(x))
    frame = embed(x, scale="rms").frame
    axis, down = up // 2, up % 2
    assert axis == frame[0, -1].abs().argmax()
    assert down == (frame[0, -1, axis] < 0)
    over = x * torch.tensor([1.0, -1.0, -1.0])  # the same cloud on its head
    turned = x @ torch.tensor([[0.6, 0.8, 0], [-0.8, 0.6, 0], [0, 0, 1]], dtype=x.dtype)
    lying = x.roll(1, -1)
    assert [model.pairs(y)[1].item() for y in (over, turned)] == [up.item() ^ 1, up.item()]
    assert model.pairs(lying)[1] // 2 != axis
    for y in (over, turned, lying):
        torch.testing.assert_close(model.pairs(y)[0], logits)


def test_pairs_of_drawn_frames_belong_to_the_frames_that_were_drawn():
    config = InvariantPointNetConfig(
        5, kind="frames", training_kind="frames", training_sample=True, upright=True
    )
    torch.manual_seed(0)
    model = InvariantPointNet(config).double()
    seen = []
    model.invariant.network.network.register_forward_pre_hook(lambda _, x: seen.append(x[0]))
    x = cloud().expand(64, -1, -1)
    _, up = model.pairs(x)
    height = x[..., -1] - x[..., -1].mean(-1, keepdim=True)
    (y,) = seen
    sign = torch.einsum("bn,bnk->bk", height, y).gather(1, up[:, None] // 2)[:, 0].sign()
    assert torch.equal(sign, 1.0 - 2 * (up % 2))
    assert up.unique().numel() == 2


def test_bad_input_is_named():
    names = r"pointnet, pointnet\+\+, dgcnn, transformer"
    refused(f"network must be one of {names}", InvariantPointNetConfig, 4, "mlp")
    with pytest.raises(ValueError, match="settings do not fit pointnet"):
        InvariantPointNet(InvariantPointNetConfig(4, settings={"neighbors": 3}))
    refused("reduce must be", InvariantPointNetConfig, 4, reduce="sum")
    with pytest.raises(ValueError, match="kind must be 'skew' where there is no group"):
        InvariantPointNet(InvariantPointNetConfig(4, group=None, kind="soft"))
    refused("preset must be one of default, pointnet", InvariantPointNet.preset, "large", 4)
    refused("upright needs a group", InvariantPointNetConfig, 4, group=None, upright=True)
    with pytest.raises(ValueError, match="upright is True, got False"):
        InvariantPointNet(InvariantPointNetConfig(4)).pairs(cloud().float())
    with pytest.raises(ValueError, match=r"unknown fields \['colour'\]"):
        InvariantPointNet.from_config({"num_classes": 4, "colour": 1})
    refused("must be positive", PointNet, 0)


def test_a_preset_changes_by_name():
    preset = InvariantPointNet.preset("dgcnn", 4, group="O").config  # JSON types, as changed ones
    config = InvariantPointNet.preset("dgcnn", 4, group="SO", settings={"neighbors": 3}).config
    assert config.group == "SO"
    assert config.settings == preset.settings | {"neighbors": 3}
    with pytest.raises(ValueError, match=r"unknown fields .'neighbors'."):
        InvariantPointNet.preset("dgcnn", 4, neighbors=3)
