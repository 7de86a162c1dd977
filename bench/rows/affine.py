"""Convolutions on affine groups beside convolutions of equal size, and escnn."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from bench.peers import Library, drawn, of_module
from bench.row import Problem, Row, library, needs
from equigeo import affine
from equigeo.groups import (
    SL,
    SO,
    GLPlus,
    GroupSamples,
    LinearGroup,
    Similarity,
    equidistant_rotations,
    finite_rotations,
    haar_rotations,
    pair_samples,
    sample_stretches,
)
from equigeo.reps import TensorRep

CONVOLUTIONS: dict[int, Any] = {2: nn.Conv2d, 3: nn.Conv3d}


def stretched(group: LinearGroup, rotations: GroupSamples) -> GroupSamples:
    generator = torch.Generator().manual_seed(0)
    stretches = sample_stretches(group, len(rotations), 0.2, generator=generator)
    return pair_samples(stretches, rotations)


def turns(count: int) -> GroupSamples:
    return haar_rotations(3, count, generator=torch.Generator().manual_seed(0))


GROUPS: dict[str, Callable[[], GroupSamples]] = {
    "SO(2), 8 samples": lambda: equidistant_rotations(8),
    "SO(2), 16 samples": lambda: equidistant_rotations(16),
    "SL(2), 8 samples": lambda: stretched(SL(2), equidistant_rotations(8)),
    "GL+(2), 8 samples": lambda: stretched(GLPlus(2), equidistant_rotations(8)),
    "SO(3), 24 samples": lambda: finite_rotations("octahedral"),
    "GL+(3), 24 samples": lambda: stretched(GLPlus(3), turns(24)),
}
# Channels, pixels along an axis of kernels and of images.
SIZES = {2: (16, 7, 28), 3: (2, 5, 16)}
SAMPLED = "In training, kernels are networks, evaluated in every call; escnn expands a fixed basis."
EQUAL = "It calls the same function of PyTorch behind checks."
WHYS = {
    "GroupPool": EQUAL,
    "SampleLayerNorm": EQUAL,
    "SampleBatchNorm": EQUAL,
    "PointFrame": "Frames are computed in float64, are proper, and fit flat clouds.",
}
IN_IMAGES = ("LiftConv", "GroupConv", "SeparableGroupConv", "ProjectConv")


def equal_size(name: str, samples: GroupSamples) -> nn.Module:
    """A convolution of as many channels as there are with samples."""
    n, count = samples.group.n, len(samples)
    channels, size, _ = SIZES[n]
    conv = CONVOLUTIONS[n]
    first = channels if name == "LiftConv" else channels * count
    last = channels if name == "ProjectConv" else channels * count
    if name == "SeparableGroupConv":
        depthwise = conv(last, last, size, padding=size // 2, groups=last)
        return nn.Sequential(conv(first, last, 1), depthwise)
    found: nn.Module = conv(first, last, size, padding=size // 2)
    return found


def in_escnn(name: str, group: str) -> bool:
    return group.startswith("SO") and name != "SeparableGroupConv"


def escnn_conv(name: str, samples: GroupSamples, x: list[Tensor]) -> Library:
    """A steerable convolution between regular fields of as many rotations."""
    from escnn import gspaces
    from escnn import nn as steerable

    n, count = samples.group.n, len(samples)
    channels, size, _ = SIZES[n]
    space = gspaces.rot2dOnR2(count) if n == 2 else gspaces.octaOnR3()
    regular, trivial = space.regular_repr, space.trivial_repr
    first, last = (
        steerable.FieldType(space, channels * [trivial if name == other else regular])
        for other in ("LiftConv", "ProjectConv")
    )
    make = steerable.R2Conv if n == 2 else steerable.R3Conv
    conv = make(first, last, kernel_size=size, padding=size // 2)
    return of_module(conv, x, lambda x: conv(steerable.GeometricTensor(x, first)).tensor)


def images(name: str, group: str, batch: int) -> Problem:
    samples = GROUPS[group]()
    n, count = samples.group.n, len(samples)
    channels, size, side = SIZES[n]
    spec = affine.KernelSpec(size)
    conv = getattr(affine, name)(samples.group, channels, channels, spec, padding=size // 2)
    on_group = () if name == "LiftConv" else (count,)
    x = drawn((batch, channels, *on_group, *[side] * n))
    flat = [x[0].detach().transpose(1, 2).flatten(1, 2).contiguous().requires_grad_()]
    flat = flat if on_group else x
    given = (lambda x: conv(x, samples)) if name == "ProjectConv" else lambda x: conv(x, samples)[0]
    peers: dict[str, Library | str] = {}
    if in_escnn(name, group):
        make = partial(escnn_conv, name, samples, flat)
        peers["escnn of equal size"] = needs("escnn", "make bench-escnn", make)
    return Problem(of_module(conv, x, given), peers, of_module(equal_size(name, samples), flat))


POINTS, CENTERS, NEAR, RANK, WIDTH = 1024, 256, 16, 16, 16


def points(name: str, make: Callable[[], GroupSamples]) -> Problem:
    """Beside its contractions with kernels and neighbors given: over edges, then over the rank."""
    samples = make()
    count = len(samples)
    near = affine.PointNeighborhood(0.5, NEAR)
    conv = getattr(affine, name)(samples.group, WIDTH, WIDTH, neighborhood=near, rank=RANK)
    on_group = () if name == "PointLiftConv" else (count,)
    (x,) = drawn((2, WIDTH, *on_group, POINTS))
    cloud = torch.nn.functional.normalize(drawn((2, POINTS, 3))[0].detach(), dim=-1)
    edges = NEAR * (count if on_group else 1)
    values, seen = drawn((2, count, CENTERS, edges, RANK), (2, CENTERS, edges, WIDTH))
    (weight,) = drawn((WIDTH, RANK * WIDTH))

    def contractions(values: Tensor, seen: Tensor, weight: Tensor) -> Tensor:
        return torch.einsum("baqkm,bqkc->bqamc", values, seen).flatten(-2) @ weight.mT

    place = {"centers": cloud[:, :CENTERS]}
    ours = of_module(conv, [x], lambda x: conv(x, cloud, samples, **place)[0])
    return Problem(ours, bound=library(contractions, [values, seen, weight]))


def pooling() -> Problem:
    samples, (x,) = equidistant_rotations(8), drawn((16, 16, 8, 28, 28))
    pool = affine.GroupPool("max")
    peer = library(lambda x: x.amax((2, 3, 4)), [x], wanted="ours", same=("forward",))
    return Problem(of_module(pool, [x], lambda x: pool(x, samples)), {"PyTorch": peer})


def kernel() -> Problem:
    layer = affine.AffineKernel(SL(2), 256, affine.KernelSpec(7))
    u, s = drawn((64, 49, 2), (64, 49, 3))
    return Problem(of_module(layer, [u, s]), bound="products")


def norm(layer: nn.Module, peer: Callable[..., Any]) -> Problem:
    x = drawn((16, 16, 8, 28, 28))
    return Problem(of_module(layer, x), {"PyTorch": library(peer, x, wanted="ours")})


def batch_norm(x: Tensor) -> Tensor:
    if not torch.is_grad_enabled():  # evaluation, with initial statistics
        return nn.functional.batch_norm(x, torch.zeros(16), torch.ones(16))
    return nn.functional.batch_norm(x, None, None, torch.ones(16), torch.zeros(16), training=True)


def layer_norm(x: Tensor) -> Tensor:
    return nn.functional.layer_norm(x, x.shape[1:])


def readout() -> Problem:
    samples, (x,) = equidistant_rotations(8), drawn((16, 16, 8, 28, 28))
    layer = affine.TensorReadout(TensorRep(SO(2), up=1))
    moved = 4 * (x.numel() + x.numel() // 8)
    return Problem(of_module(layer, [x], lambda x: layer(x, samples)), bound=moved)


def moment_frame() -> Problem:
    """Beside the interpolation of as many pixels."""
    (x,) = drawn((32, 1, 40, 40))
    x = x.detach().square().requires_grad_()
    layer = affine.MomentFrame(size=32)
    theta = torch.eye(2, 3).expand(32, 2, 3)

    def interpolated(x: Tensor) -> Tensor:
        grid = nn.functional.affine_grid(theta, [32, 1, 32, 32], align_corners=False)
        return nn.functional.grid_sample(x, grid, align_corners=False)

    return Problem(of_module(layer, [x]), bound=library(interpolated, [x]))


def point_frame() -> Problem:
    (x,) = drawn((64, 1024, 3))
    x = (x.detach() * torch.tensor([3.0, 2, 1])).requires_grad_()
    frame = affine.PointFrame(Similarity(3))

    def axes(x: Tensor) -> Tensor:
        x = x - x.mean(1, keepdim=True)
        y = x @ torch.linalg.eigh(x.mT @ x).eigenvectors.flip(-1)
        return y / y.square().mean((1, 2), keepdim=True).sqrt()

    def signless(x: Tensor) -> Tensor:
        return frame(x).square()

    squares = library(lambda x: axes(x).square(), [x], wanted="ours")
    return Problem(library(signless, [x]), {"PyTorch": squares})


def network(make: Callable[[], nn.Module], shape: tuple[int, ...]) -> Problem:
    (x,) = drawn(shape)
    return Problem(of_module(make(), [x.detach().abs()]), bound="products")


def rows() -> list[Row]:
    problems = [(name, group, 4, "") for group in GROUPS for name in IN_IMAGES]
    problems.append(("GroupConv", "SO(2), 8 samples", 16, ", batch 16"))
    found = [
        Row(
            f"affine.{name}", group + words, partial(images, name, group, batch),
            size="short" if group + words == "SO(2), 8 samples" else "usual", why=SAMPLED,
            libraries=("escnn",) if in_escnn(name, group) else (),
        )
        for name, group, batch, words in problems
    ]  # fmt: skip
    clouds = {
        "SO(3), 12 samples": lambda: finite_rotations("tetrahedral"),
        "GL+(3), 12 samples": lambda: stretched(GLPlus(3), turns(12)),
    }
    found += [
        Row(f"affine.{name}", f"{group}, clouds", partial(points, name, samples), size="short")
        for name in ("PointLiftConv", "PointGroupConv")
        for group, samples in clouds.items()
    ]
    model, cloud = affine.AffineResNet.preset, affine.AffinePointNet.preset
    others: dict[str, tuple[str, Callable[[], Problem]]] = {
        "AffineKernel": ("SL(2), 3,136 places, 256 values", kernel),
        "GroupPool": ("maximum, 16 x 16 x 8 x 28 x 28", pooling),
        "SampleBatchNorm": (
            "16 x 16 x 8 x 28 x 28",
            lambda: norm(affine.SampleBatchNorm(16).requires_grad_(False), batch_norm),
        ),
        "SampleLayerNorm": (
            "16 x 16 x 8 x 28 x 28", lambda: norm(affine.SampleLayerNorm(), layer_norm)
        ),
        "TensorReadout": ("vectors, 16 x 16 x 8 x 28 x 28", readout),
        "MomentFrame": ("32 images of 40 x 40", moment_frame),
        "PointFrame": ("similarities, 64 clouds of 1,024", point_frame),
        "AffineResNet": (
            "default, 32 images of 40 x 40",
            lambda: network(lambda: model("default", head={"dropout": 0.0}), (32, 1, 40, 40)),
        ),
        "AffinePointNet": (
            "default, 16 clouds of 1,024",
            lambda: network(lambda: cloud("default", dropout=0.0), (16, 1024, 3)),
        ),
    }  # fmt: skip
    return [
        *found,
        *(
            Row(f"affine.{name}", problem, make, size="short", why=WHYS.get(name, ""))
            for name, (problem, make) in others.items()
        ),
    ]
