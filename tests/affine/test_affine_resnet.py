"""The network: counts of the published one, configuration, invariance."""

from __future__ import annotations

import dataclasses
import io

import pytest
import torch

from equigeo.affine import AffineResNet, AffineResNetConfig, WindowWarning
from equigeo.affine.models.heads import OrientationHead
from equigeo.groups import equidistant_rotations, rotation_log


@pytest.mark.parametrize(("group", "count"), [("SL", 339_102), ("GLPlus", 339_282)])
def test_published_number_of_parameters(group: str, count: int) -> None:
    model = AffineResNet(AffineResNetConfig.paper(10, group))
    assert sum(p.numel() for p in model.parameters()) == count


def small(**settings: object) -> AffineResNet:
    torch.manual_seed(0)
    config = dataclasses.replace(
        AffineResNetConfig(5, channels=(4, 6), features=8, samples=8), **settings
    )
    return AffineResNet(config).double().eval()


def digit() -> torch.Tensor:
    image = torch.zeros(1, 1, 40, 40, dtype=torch.float64)
    image[..., 12:26, 14:24] = torch.rand(14, 10, generator=torch.Generator().manual_seed(0))
    return image


def test_shifts_by_pixels_are_exact() -> None:
    model, x = small(), digit()
    torch.testing.assert_close(model(x.roll((5, -7), (-2, -1))), model(x), rtol=0, atol=1e-11)


def test_quarter_turns_are_exact_without_a_window_and_seen_with_one() -> None:
    x = digit()
    turned = x.rot90(1, (-2, -1))
    without, within = small(orientation_window=180.0), small()
    torch.testing.assert_close(without(turned), without(x), rtol=0, atol=1e-11)
    assert float((within(turned) - within(x)).detach().abs().max()) > 1e-4


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
    assert float(weight[:, angle > 3].max().detach()) < 1e-20
    assert (weight.argmax(1) == angle.argmin()).all()  # untrained, the window decides alone


def test_odd_numbers_of_rotations_are_not_invariant_to_quarter_turns() -> None:
    model, x = small(samples=5, output_rotations=5, orientation_window=180.0), digit()
    assert float((model(x.rot90(1, (-2, -1))) - model(x)).detach().abs().max()) > 1e-5


def test_configuration_rebuilds_the_network() -> None:
    model, x = small(), digit()
    again = AffineResNet.from_config(model.config).double().eval()
    again.load_state_dict(model.state_dict())
    torch.testing.assert_close(again(x), model(x), rtol=0, atol=0)


def test_published_network_draws_in_training_and_is_fixed_in_use() -> None:
    config = dataclasses.replace(AffineResNetConfig.paper(3), channels=(3,), features=3, samples=4)
    model, x = AffineResNet(config), digit().float()
    model.train()
    with pytest.warns(WindowWarning, match="only approximate"):
        assert not torch.equal(model(x), model(x))
    model.eval()
    with pytest.warns(WindowWarning, match="only approximate"):
        assert torch.equal(model(x), model(x))


def test_compiles_and_exports() -> None:
    model, x = small(), digit()
    program = torch.export.export(model, (x,))
    torch.testing.assert_close(program.module()(x), model(x), rtol=1e-9, atol=1e-9)


def test_state_loads_safely() -> None:
    buffer = io.BytesIO()
    torch.save(small().state_dict(), buffer)
    buffer.seek(0)
    small().load_state_dict(torch.load(buffer, weights_only=True))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"group": "SL"}, "orientation head needs"),
        ({"channels": ()}, "must be positive"),
        ({"pool": (True,)}, "equally long"),
        ({"size": 4}, "odd"),
    ],
)
def test_bad_settings_are_named(settings: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        AffineResNetConfig(5, **settings)
    with pytest.raises(ValueError, match="unknown"):
        AffineResNetConfig.from_dict({"num_classes": 5, "colour": 1})
    with pytest.raises(ValueError, match="preset"):
        AffineResNet.preset("other")
