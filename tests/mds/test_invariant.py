import pytest
import torch
from torch import nn
from torch.testing import assert_close

from equigeo import mds
from equigeo.groups import Affine, O
from equigeo.mds.frames import KINDS
from equigeo.points import PointNet as CloudNet
from equigeo.reps import Irreps, Points, TensorRep
from equigeo.testing import assert_equivariant
from tests.mds.clouds import CUBE, box, generator, generic, motions, turned
from tests.wrong_inputs import refused

EXACT = {"rtol": 0.0, "atol": 1e-12}


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
@pytest.mark.parametrize("group", ["O", "SO"])
def test_any_network_becomes_invariant(kind, group):
    model = mds.Invariant(PointNet(), kind=kind, group=group)
    x = generic(20, batch=(3,))
    want = model(x)
    assert want.shape == (3, 5)
    for g in motions(3, proper=group == "SO"):
        assert_close(model(2.5 * x @ g.mT - 1), want, **EXACT)
    assert not torch.allclose(model.network(x @ motions(1)[0].mT), model.network(x))


def test_scale_can_matter():
    model, x = mds.Invariant(PointNet(), scale="none"), generic()
    assert not torch.allclose(model(2 * x), model(x))


def test_symmetric_clouds_with_fallback():
    options = mds.EmbedOptions(fallback="anchor")
    model = mds.Invariant(PointNet(), options=options)
    x = torch.stack([generic(8), turned(CUBE), turned(box(3, 2, 1))])
    want = model(x)
    for g in motions(8):
        assert_close(model(x @ g.mT), want, **EXACT)
    assert_close(want[0], mds.Invariant(PointNet())(x[0]), **EXACT)


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


def test_choices_are_checked():
    for keyword in ("kind", "scale", "group"):
        with pytest.raises(ValueError, match=f"{keyword} must be"):
            mds.Invariant(PointNet(), **{keyword: "nothing"})
    for keyword in ("training_kind", "reduce"):
        with pytest.raises(ValueError, match=f"{keyword} must be"):
            mds.EmbedOptions(**{keyword: "nothing"})
    with pytest.raises(ValueError, match="training_kind must be 'skew' where there is no group"):
        mds.Invariant(PointNet(), group=None, options=mds.EmbedOptions(training_kind="soft"))
    with pytest.raises(ValueError, match=r"points must be \(\.\.\., points, 3\), got \(5, 2\)"):
        mds.Invariant(PointNet())(torch.zeros(5, 2))


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
@pytest.mark.parametrize("group", ["O", "SO"])
def test_features_that_turn_go_in_and_come_out(kind, group):
    net = TurningNet(VELOCITY.dim, ANSWER.dim)
    model = mds.Invariant(
        net, kind=kind, group=group, scale="none", rep_features=VELOCITY, rep_out=ANSWER
    )
    assert model.rep_in == (model.points, VELOCITY.restrict(model.points.group))
    features = torch.randn(12, VELOCITY.dim, generator=generator(7), dtype=torch.float64)
    inputs = [generic(12), features]
    assert_equivariant(model, model.rep_in, model.rep_out, inputs=inputs, condition=16.0)
    still = mds.Invariant(net, kind=kind, group=group, scale="none", rep_out=ANSWER)
    with pytest.raises(AssertionError):
        assert_equivariant(still, model.rep_in, model.rep_out, inputs=inputs, condition=16.0)


@pytest.mark.parametrize("kind", ["skew", "weighted"])
def test_features_of_ragged_clouds_are_those_of_each(kind):
    model = mds.Invariant(
        TurningNet(6, 3), kind=kind, rep_features=VELOCITY, rep_out=TensorRep(O(3))
    )

    class Each(nn.Module):
        def forward(self, y, seen):
            parts = zip(y.split([12, 9]), seen.split([12, 9]), strict=True)
            return torch.stack([model.network(*part) for part in parts])

    ragged = mds.Invariant(Each(), kind=kind, rep_features=VELOCITY, rep_out=TensorRep(O(3)))
    clouds = [generic(12), generic(9, seed=4)]
    features = [torch.randn(len(x), 6, generator=generator(8), dtype=torch.float64) for x in clouds]
    want = torch.stack([model(*pair) for pair in zip(clouds, features, strict=True)])
    got = ragged(torch.cat(clouds), torch.cat(features), ptr=torch.tensor([0, 12, 21]))
    assert_close(got, want, **EXACT)


def test_positions_come_out_of_training_on_drawn_frames():
    class Move(nn.Module):
        def forward(self, y, seen):
            return y + 0.1 * torch.tanh(seen)

    group = Affine(O(3))
    model = mds.Invariant(
        Move(),
        kind="frames",
        options=mds.EmbedOptions(training_sample=True),
        rep_features=Irreps("1o"),
        rep_out=Points(group),
    )
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
    with pytest.raises(ValueError, match="features must be"):
        mds.frame_lift(seen[:, :, :, 0, :3], found, IRREPS)
    per_cloud = mds.frame_components(values[:, 0], found, IRREPS, power=2.0)
    assert_close(mds.frame_lift(per_cloud, found, IRREPS, power=2.0), values[:, 0], **EXACT)
    back = mds.frame_components(x.mean(1), found, Points(Affine(O(3))))
    assert_close(back, torch.zeros_like(back), **EXACT)


IRREPS = Irreps("0e + 1o + 2e")


def test_what_does_not_fit_is_named():
    refused("where group is None", mds.Invariant, PointNet(), group=None, rep_out=VELOCITY)
    with pytest.raises(ValueError, match="reduce must be 'mean', got 'min'"):
        mds.Invariant(PointNet(), options=mds.EmbedOptions(reduce="min"), rep_out=VELOCITY)
    with pytest.raises(TypeError, match="must have a Representation, got int"):
        mds.Invariant(PointNet(), rep_features=3)
    model = mds.Invariant(TurningNet(6, 3), rep_features=VELOCITY)
    refused("must follow the points, got none", model, generic(), error=TypeError)
    refused(r"features must be \(..., 6\)", model, generic(), generic())


def test_rows_that_may_be_of_points_or_of_clouds_are_refused_beside_empty_clouds():
    model = mds.Invariant(nn.Tanh(), scale="none", rep_out=Irreps("1o")).double()
    x = generic(4)
    alone = model(x, ptr=torch.tensor([0, 4]))
    assert torch.equal(model(x, ptr=torch.tensor([0, 4, 4])), alone)
    with pytest.raises(ValueError, match="4 rows may be of points or of clouds"):
        model(x, ptr=torch.tensor([0, 4, 4, 4, 4]))


@pytest.mark.parametrize("kind", ["skew", "frames"])
def test_networks_that_are_not_told_of_clouds_take_no_batch_for_one_cloud(kind):
    rows, ptr = torch.cat([generic(15), generic(12, seed=4)]).float(), torch.tensor([0, 15, 27])
    batch = torch.arange(2).repeat_interleave(ptr.diff())
    network = CloudNet(4).eval()
    told = mds.Invariant(network, kind=kind).eval()
    assert_close(told(rows, ptr=ptr), told(rows, batch=batch))
    untold = mds.Invariant(nn.Sequential(network), kind=kind).eval()
    for clouds in ({"ptr": ptr}, {"batch": batch}):
        with pytest.raises(ValueError, match=r"not know where|begin with the"):
            untold(rows, **clouds)
    assert mds.Invariant(nn.Linear(3, 2), kind=kind)(rows, ptr=ptr).shape == (27, 2)


@pytest.mark.parametrize("scale", ["rms", "none"])
def test_invariant_networks_declare_what_they_promise(scale):
    model = mds.Invariant(PointNet(), scale=scale)
    if scale == "none":
        assert model.rep_in == Points(Affine(O(3)))
    assert_equivariant(model, inputs=[generic(12)], condition=1e3)
    with pytest.raises(AssertionError, match="not equivariant"):
        assert_equivariant(model.network, model.rep_in, model.rep_out, inputs=[generic(12)])
