"""Networks behind embeddings: invariant, equivariant, rebuilt from their configuration."""

import json
from functools import partial
from typing import Any

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from equigeo import mds
from equigeo.groups import Affine, O
from equigeo.mds import InvariantPointNet, InvariantPointNetConfig, embed
from equigeo.mds.frames import KINDS
from equigeo.points import PointNet as CloudNet
from equigeo.reps import Irreps, Points, TensorRep, Trivial
from equigeo.testing import assert_equivariant, equivariance_error, tolerance
from tests.draws import generator
from tests.mds.clouds import CUBE, box, generic, motions, turned
from tests.wrong_inputs import refused

EXACT = {"rtol": 0.0, "atol": 1e-12}
every_group = pytest.mark.parametrize("group", ["O", "SO"])


class PointNet(nn.Module):
    def __init__(self, dim=3):
        super().__init__()
        self.each, self.last = nn.Linear(dim, 16), nn.Linear(16, 5)
        g = generator()
        with torch.no_grad():
            for p in self.parameters():
                p.copy_(torch.randn(p.shape, generator=g))
        self.double()

    def forward(self, y, bias=0.0):
        return self.last(torch.tanh(self.each(y)).amax(-2)) + bias


@pytest.mark.parametrize("kind", ["skew", *KINDS])
@every_group
def test_any_network_becomes_invariant(kind, group):
    model = mds.Invariant(PointNet(), kind=kind, group=group)
    x = generic(20, batch=(3,))
    want = model(x)
    assert want.shape == (3, 5)
    for g in motions(3, proper=group == "SO"):
        assert_close(model(2.5 * x @ g.mT - 1), want, **EXACT)
    assert not torch.allclose(model.network(x @ motions(1)[0].mT), model.network(x))


def test_symmetric_clouds_with_fallback():
    options = mds.EmbedOptions(fallback="anchor")
    model = mds.Invariant(PointNet(), options=options)
    x = torch.stack([generic(8), turned(CUBE), turned(box(3, 2, 1))])
    want = model(x)
    for g in motions(8):
        assert_close(model(x @ g.mT), want, **EXACT)
    assert_close(want[0], mds.Invariant(PointNet())(x[0]), **EXACT)


@pytest.mark.parametrize("scale", ["rms", "none"])
def test_networks_declare_their_invariance(scale):
    model, x = mds.Invariant(PointNet(), scale=scale), generic(12)
    assert_equivariant(model, inputs=[x], condition=1e3)
    with pytest.raises(AssertionError, match="not equivariant"):
        assert_equivariant(model.network, model.rep_in, model.rep_out, inputs=[x])
    if scale == "none":
        assert model.rep_in == Points(Affine(O(3)))
        assert not torch.allclose(model(2 * x), model(x))


def test_clouds_in_every_form():
    x = generic(12)
    model = mds.Invariant(PointNet())
    padded = torch.cat([x, torch.full((3, 3), torch.nan)])
    mask = torch.arange(15) < 12

    class Masked(PointNet):
        def forward(self, y, mask):
            return super().forward(y[..., mask, :])

    assert_close(mds.Invariant(Masked())(padded, mask, mask=mask), model(x), **EXACT)
    per_point = mds.Invariant(nn.Tanh())
    ragged = per_point(torch.cat([x, x[:7]]), ptr=torch.tensor([0, 12, 19]))
    assert_close(ragged[:12], per_point(x), **EXACT)
    assert_close(model(x, bias=2.0), model(x) + 2, **EXACT)
    unknown = torch.stack([x, x.clone().fill_(torch.nan)])
    for kind in ("skew", "soft", "weighted"):
        options = mds.EmbedOptions(nan_policy="propagate")
        found = mds.Invariant(PointNet(), kind=kind, options=options)(unknown)
        assert found.isnan().flatten(1).all(dim=1).tolist() == [False, True]
    weighted = model(x, weights=torch.arange(12.0))
    assert not torch.allclose(weighted, model(x))


def test_training_may_use_another_kind():
    calls = []

    class Counted(PointNet):
        def forward(self, y):
            calls.append(len(y))
            return super().forward(y)

    options = mds.EmbedOptions(training_kind="skew")
    model = mds.Invariant(Counted(), kind="frames", options=options)
    model(generic())
    assert len(calls) == 1
    model.eval()
    model(generic())
    assert len(calls) == 9
    assert "kind='frames'" in repr(model)


@pytest.mark.parametrize("training", [True, False])
def test_frames_of_weight_zero_have_no_pass(training):
    passes = []

    class Counted(PointNet):
        def forward(self, y):
            passes.append(len(y))
            return super().forward(y)

    x = torch.stack([generic(8), turned(box(3, 2, 1)), generic(8, seed=4)])
    model = mds.Invariant(Counted(), kind="weighted").train(training)
    found = mds.frames(x, kind="weighted", scale="rms")
    assert_close(model(x), mds.frame_average(PointNet(), found), **EXACT)
    assert sum(passes) == int((found.weight > 0).sum()) < found.weight.numel()
    assert max(passes) == (sum(passes) if training else 3)
    wrong = mds.Invariant(nn.Flatten(0, 1), kind="weighted")
    refused("must begin with the batch axes", wrong, x)


class TurningNet(nn.Module):
    """Any function of places and components of features, one vector and a tensor per cloud."""

    def __init__(self, features, out):
        super().__init__()
        g = generator(5)
        self.each = torch.randn(3 + features, 16, generator=g, dtype=torch.float64)
        self.last = torch.randn(16, out, generator=g, dtype=torch.float64)

    def forward(self, y, seen):
        return torch.tanh(torch.cat([y, seen], -1) @ self.each).mean(-2) @ self.last


VELOCITY, ANSWER = Irreps("1o + 1e"), Irreps("0o + 1o + 2e")


@pytest.mark.parametrize("kind", ["skew", "frames", "anchor", "weighted"])
@every_group
def test_features_that_turn_go_in_and_come_out(kind, group):
    net = TurningNet(VELOCITY.dim, ANSWER.dim)
    options = {"kind": kind, "group": group, "scale": "none", "rep_out": ANSWER}
    model = mds.Invariant(net, rep_features=VELOCITY, **options)
    assert model.rep_in == (model.points, VELOCITY.restrict(model.points.group))
    features = torch.randn(12, VELOCITY.dim, generator=generator(7), dtype=torch.float64)
    inputs = [generic(12), features]
    assert_equivariant(model, model.rep_in, model.rep_out, inputs=inputs, condition=16.0)
    still = mds.Invariant(net, **options)
    with pytest.raises(AssertionError):
        assert_equivariant(still, model.rep_in, model.rep_out, inputs=inputs, condition=16.0)


@pytest.mark.parametrize("kind", ["skew", "weighted"])
def test_features_of_ragged_clouds_are_those_of_each(kind):
    options = {"kind": kind, "rep_features": VELOCITY, "rep_out": TensorRep(O(3))}
    model = mds.Invariant(TurningNet(6, 3), **options)

    class Each(nn.Module):
        def forward(self, y, seen):
            parts = zip(y.split([12, 9]), seen.split([12, 9]), strict=True)
            return torch.stack([model.network(*part) for part in parts])

    ragged = mds.Invariant(Each(), **options)
    clouds = [generic(12), generic(9, seed=4)]
    features = [torch.randn(len(x), 6, generator=generator(8), dtype=torch.float64) for x in clouds]
    want = torch.stack([model(*pair) for pair in zip(clouds, features, strict=True)])
    got = ragged(torch.cat(clouds), torch.cat(features), ptr=torch.tensor([0, 12, 21]))
    assert_close(got, want, **EXACT)


def test_positions_come_out_of_training_on_drawn_frames():
    class Move(nn.Module):
        def forward(self, y, seen):
            return y + 0.1 * torch.tanh(seen)

    reps = {"rep_features": Irreps("1o"), "rep_out": Points(Affine(O(3)))}
    options = mds.EmbedOptions(training_sample=True)
    model = mds.Invariant(Move(), kind="frames", options=options, **reps)
    x = generic(10)
    # An odd function of components: the average over signs of axes is what each frame gives.
    average = model.eval()(x, x.sin())
    assert_close(model.train()(x, x.sin()), average, **EXACT)
    assert average.shape == x.shape


def test_components_undo_the_lift():
    x = generic(9, batch=(2,))
    found = mds.frames(x, kind="frames", scale="rms")
    values = torch.randn(2, 9, 4, IRREPS.dim, generator=generator(9), dtype=torch.float64)
    seen = mds.frame_components(values, found, IRREPS, power=2.0)
    assert seen.shape == (8, 2, 9, 4, IRREPS.dim)
    refused("features must be", mds.frame_lift, seen[:, :, :, 0, :3], found, IRREPS)
    per_cloud = mds.frame_components(values[:, 0], found, IRREPS, power=2.0)
    assert_close(mds.frame_lift(per_cloud, found, IRREPS, power=2.0), values[:, 0], **EXACT)
    back = mds.frame_components(x.mean(1), found, Points(Affine(O(3))))
    assert_close(back, torch.zeros_like(back), **EXACT)


IRREPS = Irreps("0e + 1o + 2e")


def test_choices_and_features_that_do_not_fit_raise():
    make = partial(mds.Invariant, PointNet())
    for keyword in ("kind", "scale", "group"):
        refused(f"{keyword} must be", make, **{keyword: "nothing"})
    for keyword in ("training_kind", "reduce"):
        refused(f"{keyword} must be", mds.EmbedOptions, **{keyword: "nothing"})
    soft = mds.EmbedOptions(training_kind="soft")
    message = "training_kind must be 'skew' where there is no group"
    refused(message, make, group=None, options=soft)
    refused(r"points must be \(\.\.\., points, 3\), got \(5, 2\)", make(), torch.zeros(5, 2))
    refused("where group is None", make, group=None, rep_out=VELOCITY)
    least = mds.EmbedOptions(reduce="min")
    refused("reduce must be 'mean', got 'min'", make, options=least, rep_out=VELOCITY)
    refused("must have a Representation, got int", make, rep_features=3, error=TypeError)
    model, x = mds.Invariant(TurningNet(6, 3), rep_features=VELOCITY), generic(4)
    refused("must follow the points, got none", model, x, error=TypeError)
    refused(r"features must be \(..., 6\)", model, x, x)
    model = mds.Invariant(nn.Tanh(), scale="none", rep_out=Irreps("1o")).double()
    alone = model(x, ptr=torch.tensor([0, 4]))
    assert torch.equal(model(x, ptr=torch.tensor([0, 4, 4])), alone)
    message = "4 rows may be of points or of clouds"
    refused(message, model, x, ptr=torch.tensor([0, 4, 4, 4, 4]))


@pytest.mark.parametrize("kind", ["skew", "frames"])
def test_networks_that_are_not_told_of_clouds_take_no_batch_for_one_cloud(kind):
    rows, ptr = torch.cat([generic(15), generic(12, seed=4)]).float(), torch.tensor([0, 15, 27])
    batch = torch.arange(2).repeat_interleave(ptr.diff())
    network = CloudNet(4).eval()
    told = mds.Invariant(network, kind=kind).eval()
    assert_close(told(rows, ptr=ptr), told(rows, batch=batch))
    untold = mds.Invariant(nn.Sequential(network), kind=kind).eval()
    for clouds in ({"ptr": ptr}, {"batch": batch}):
        refused(r"not know where|begin with the", untold, rows, **clouds)
    assert mds.Invariant(nn.Linear(3, 2), kind=kind)(rows, ptr=ptr).shape == (27, 2)


CLOSE = tolerance(torch.float64, 512)  # channels of the widest layer
LAW = Points(Affine(O(3))), Trivial(Affine(O(3)), 5)


def cloud() -> torch.Tensor:
    x = torch.rand(1, 40, 3, dtype=torch.float64, generator=generator())
    return x.square() * torch.tensor([3.0, 2.0, 1.0])


def network(**settings: Any) -> InvariantPointNet:
    torch.manual_seed(0)
    return InvariantPointNet(InvariantPointNetConfig(5, **settings)).double().eval()


@pytest.mark.parametrize(
    "settings",
    [{}, {"upright": True}, {"kind": "frames", "upright": True}],
    ids=["pointnet", "upright", "upright frames"],
)
def test_rigid_motions_scale_and_order_change_nothing(settings):
    model, x = network(**settings), cloud()
    assert_equivariant(lambda x: model(x).detach(), *LAW, inputs=[x])
    torch.testing.assert_close(model(x.flip(1)), model(x), **CLOSE)
    if not settings:
        torch.testing.assert_close(model(7 * x), model(x), **CLOSE)
        plain = CloudNet(5).double().eval()
        assert equivariance_error(lambda x: plain(x).detach(), *LAW, inputs=[x]) > 0.01


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
    model, x = network(group=None), cloud()
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
    model = network(kind="soft", training_kind="soft", training_sample=True)
    x = torch.cat([cloud(), cloud().flip(1)])
    calls = []
    model.invariant.network.register_forward_pre_hook(lambda *_: calls.append(1))
    model(x)
    assert len(calls) >= 1
    calls.clear()
    model.train()(x)
    assert len(calls) == 1


def test_pairs_say_which_direction_is_up():
    model, x = network(upright=True), cloud()
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
    options = {"kind": "frames", "training_kind": "frames", "training_sample": True}
    model = network(**options, upright=True).train()
    seen = []
    model.invariant.network.network.register_forward_pre_hook(lambda _, x: seen.append(x[0]))
    x = cloud().expand(64, -1, -1)
    _, up = model.pairs(x)
    height = x[..., -1] - x[..., -1].mean(-1, keepdim=True)
    (y,) = seen
    sign = torch.einsum("bn,bnk->bk", height, y).gather(1, up[:, None] // 2)[:, 0].sign()
    assert torch.equal(sign, 1.0 - 2 * (up % 2))
    assert up.unique().numel() == 2


def test_presets_change_by_name_and_bad_settings_raise():
    preset = InvariantPointNet.preset("dgcnn", 4, group="O").config  # JSON types, as changed ones
    config = InvariantPointNet.preset("dgcnn", 4, group="SO", settings={"neighbors": 3}).config
    assert config.group == "SO"
    assert config.settings == preset.settings | {"neighbors": 3}
    refused(r"unknown fields .'neighbors'.", InvariantPointNet.preset, "dgcnn", 4, neighbors=3)
    refused("preset must be one of default, pointnet", InvariantPointNet.preset, "large", 4)
    make = InvariantPointNetConfig
    names = r"pointnet, pointnet\+\+, dgcnn, transformer"
    refused(f"network must be one of {names}", make, 4, "mlp")
    refused("reduce must be", make, 4, reduce="sum")
    refused("upright needs a group", make, 4, group=None, upright=True)
    misfit = make(4, settings={"neighbors": 3})
    refused("settings do not fit pointnet", InvariantPointNet, misfit)
    with pytest.raises(ValueError, match="kind must be 'skew' where there is no group"):
        InvariantPointNet(make(4, group=None, kind="soft"))
    refused("upright is True, got False", network().pairs, cloud())
    unknown = {"num_classes": 4, "colour": 1}
    refused(r"unknown fields \['colour'\]", InvariantPointNet.from_config, unknown)
    refused("must be positive", CloudNet, 0)
