"""Layers on images and points with one argument wrong."""

import pytest
import torch

from equigeo import affine
from equigeo.groups import SO, Similarity, equidistant_rotations, finite_rotations
from equigeo.points import pad_clouds
from equigeo.reps import Points, TensorRep
from tests.affine.test_samples import sl2
from tests.wrong_inputs import Wrong, wrong_calls

EIGHT, TURNS = equidistant_rotations(8), finite_rotations("dihedral")
IMAGE, FIELD = torch.rand(2, 1, 9, 9), torch.rand(2, 4, 8, 9, 9)
CLOUD = torch.randn(2, 20, 3, generator=torch.Generator().manual_seed(0))
SPEC = affine.KernelSpec(3)
# Kernels take the dtype of features; any batch and any size of images will do.
FREE = {f"x: {kind}" for kind in ("other dtype", "wider", "longer", "meta", "complex")}
FREE |= {"outputs: None"}
NAMES = {"x": "features", "inputs": "samples", "outputs": "samples"}
OPTIONAL = {"centers: None", "mask: None", "outputs: None"}
PLACES = {
    f"{name}: {kind}" for name in ("positions", "centers") for kind in ("other dtype", "meta")
}

CALLS: list[Wrong] = [
    *wrong_calls(
        affine.LiftConv(SO(2), 1, 4, SPEC),
        {"x": IMAGE, "samples": EIGHT},
        names=NAMES,
        fine=FREE - {"x: complex"},
    ),
    *wrong_calls(
        affine.GroupConv(SO(2), 4, 6, SPEC),
        {"x": FIELD, "inputs": EIGHT, "outputs": EIGHT},
        names=NAMES,
        fine=FREE - {"x: complex"},
    ),
    *wrong_calls(
        affine.SeparableGroupConv(SO(2), 4, 6, SPEC),
        {"x": FIELD, "inputs": EIGHT},
        names=NAMES,
        fine=FREE - {"x: complex"},
    ),
    *wrong_calls(
        affine.ProjectConv(SO(2), 4, 6, SPEC),
        {"x": FIELD, "inputs": EIGHT},
        names=NAMES,
        fine=FREE - {"x: complex"},
    ),
    *wrong_calls(
        affine.GroupPool(), {"x": FIELD, "samples": EIGHT}, names=NAMES, fine=FREE | {"x: integers"}
    ),
    *wrong_calls(
        affine.TensorReadout(TensorRep(SO(2), up=1)),
        {"x": FIELD, "samples": EIGHT},
        names=NAMES,
        fine=FREE | {"x: integers"},
    ),
    *wrong_calls(
        affine.MomentFrame(9),
        {"image": IMAGE},
        names={"image": "images"},
        fine={f"image: {kind}" for kind in ("other dtype", "wider", "longer", "meta")},
    ),
    *wrong_calls(
        affine.PointFrame(Similarity(3)),
        {"points": CLOUD},
        fine={"points: other dtype", "points: longer", "points: meta"},
    ),
    *wrong_calls(
        affine.PointLiftConv(SO(3), 4, 5),
        {
            "x": torch.rand(2, 4, 20),
            "positions": CLOUD,
            "samples": TURNS,
            "centers": CLOUD[:, :6],
            "mask": torch.ones(2, 20, dtype=torch.bool),
        },
        names={"x": "features", "positions": "positions|features"},
        fine=OPTIONAL | PLACES | {"x: other dtype", "x: meta", "mask: meta"},
    ),
    *wrong_calls(
        affine.PointGroupConv(SO(3), 4, 5),
        {"x": torch.rand(2, 4, 4, 20), "positions": CLOUD, "inputs": TURNS},
        names=NAMES | {"positions": "positions|features"},
        fine=OPTIONAL | PLACES | {"x: other dtype", "x: meta"},
    ),
    *wrong_calls(
        affine.AffinePointNet.preset("default", 3).eval(),
        {"points": CLOUD},
        fine={"points: longer"},
    ),
    *wrong_calls(
        affine.AffineResNet.preset("default", 3).eval(),
        {"images": torch.rand(2, 1, 40, 40)},
        fine={"images: wider", "images: longer"},
    ),
]


@pytest.mark.parametrize("wrong", CALLS, ids=lambda wrong: wrong.label)
def test_a_wrong_argument_gives_one_sentence_that_names_it(wrong: Wrong) -> None:
    wrong.check()


def test_rows_of_a_batch_are_told_to_be_padded():
    layer = affine.PointLiftConv(SO(3), 1, 2)
    rows, batch = CLOUD[0], torch.tensor([0] * 8 + [1] * 12)
    with pytest.raises(ValueError, match=r"positions must be .* got \(20, 3\): put clouds .*pad_c"):
        layer(torch.ones(1, 1, 20), rows, TURNS)
    with pytest.raises(ValueError, match="a batch vector is none, see pad_clouds"):
        layer(torch.ones(1, 1, 20), rows[None], TURNS, mask=batch)
    positions, mask = pad_clouds(rows, batch=batch)
    found = layer(mask[:, None].float(), positions, TURNS, mask=mask)[0]
    for cloud, there, out in zip(positions, mask, found, strict=True):
        alone = layer(torch.ones(1, 1, int(there.sum())), cloud[there][None], TURNS)[0]
        torch.testing.assert_close(out[..., there], alone[0])


def test_arrays_are_positions():
    layer = affine.PointLiftConv(SO(3), 1, 2)
    ones = torch.ones(2, 1, 20)
    want = layer(ones, CLOUD, TURNS, CLOUD[:, :5])[0]
    found = layer(ones, CLOUD.double().numpy(), TURNS, CLOUD[:, :5].numpy())[0]
    torch.testing.assert_close(found, want)
    frame = affine.PointFrame(SO(3))
    torch.testing.assert_close(frame(CLOUD.numpy()), frame(CLOUD))
    model = affine.AffinePointNet.preset("default", 3).eval()
    torch.testing.assert_close(model(CLOUD.double().numpy()), model(CLOUD))


def test_presets_change_by_name():
    config = affine.AffinePointNet.preset("SO", 5, rank=8, centers=(64, 16)).config
    assert (config.group, config.rank, config.centers, config.radii) == (
        "SO",
        8,
        (64, 16),
        (0.2, 0.4),
    )


def test_layers_and_samples_are_on_one_device():
    lift = affine.LiftConv(SO(2), 1, 4, SPEC), IMAGE
    kinds = (affine.GroupConv, affine.SeparableGroupConv, affine.ProjectConv)
    for layer, x in (lift, *((kind(SO(2), 4, 6, SPEC), FIELD) for kind in kinds)):
        with pytest.raises(ValueError, match="must be on meta as the layer is, got cpu: use sa"):
            layer.to("meta")(x.to("meta"), EIGHT)


CONV, SEPARABLE = affine.GroupConv(SO(2), 4, 6, SPEC), affine.SeparableGroupConv(SO(2), 4, 6, SPEC)
LIFT, PROJECT = affine.LiftConv(SO(2), 1, 2), affine.ProjectConv(SO(2), 4, 2)
VECTORS = affine.TensorReadout(TensorRep(SO(2), up=1))
FEATURES, OF_SO2 = "features must be", r"samples must be of SO\(2\), got SL\(2\)"


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: affine.GroupConv(SO(2), 0, 1), "channels must be positive"),
        (lambda: affine.LiftConv(SO(2), 1, 0), "channels must be positive, got 1 and 0"),
        (lambda: affine.LiftConv(SO(2), 1, 1, stride=0), "stride must be at least 1, got 0"),
        (lambda: affine.ProjectConv(SO(2), 0, 1), "channels must be positive, got 0 and 1"),
        (lambda: CONV(FIELD[:, :, 1:], EIGHT), rf"{FEATURES} \(batch, 4, 8, size, size\)"),
        (lambda: CONV(FIELD[:, 1:], EIGHT), FEATURES),
        (lambda: CONV(FIELD, sl2(1.0)), OF_SO2),
        (lambda: CONV(FIELD, EIGHT, sl2(1.0)), OF_SO2),
        (lambda: SEPARABLE(FIELD[:, :, 1:], EIGHT), rf"{FEATURES} \(batch, 4, 8, size, size\)"),
        (lambda: SEPARABLE(FIELD[:, 1:], EIGHT), FEATURES),
        (lambda: SEPARABLE(FIELD, sl2(1.0)), OF_SO2),
        (lambda: SEPARABLE(FIELD, EIGHT, sl2(1.0)), OF_SO2),
        (lambda: LIFT(IMAGE, sl2(1.0)), OF_SO2),
        (lambda: LIFT(torch.rand(1, 2, 9, 9), EIGHT), FEATURES),
        (lambda: PROJECT(FIELD[:, :, 1:], EIGHT), FEATURES),
        (lambda: affine.GroupPool()(FIELD[:, :, 1:], EIGHT), "for 8 samples"),
        (lambda: affine.GroupPool("median"), "'max' or 'mean'"),
        (lambda: VECTORS(FIELD[:, 1:], EIGHT), r"C \* 2"),
        (lambda: VECTORS(FIELD, sl2(1.0)), "samples must be of"),
        (lambda: affine.TensorReadout(Points(SO(2))), "linear representation"),
    ],
)
def test_arguments_that_do_not_fit_together_raise(call, message):
    with pytest.raises(ValueError, match=message):
        call()
