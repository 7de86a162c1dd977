"""Image classifier that is invariant to affine maps of its images."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from equigeo._core.checks import TensorLike, as_tensor, check_like, check_shape
from equigeo._core.config import check_config, override
from equigeo._core.tensors import plain_tensors
from equigeo.affine.affine_resnet_config import AffineResNetConfig, HeadConfig
from equigeo.affine.group_conv import GroupConv, GroupConvolution, LiftConv, SeparableGroupConv
from equigeo.affine.moment_frame import MomentFrame
from equigeo.affine.samples import GroupPool, normalize, sample_norm
from equigeo.groups import (
    Affine,
    GroupSamples,
    equidistant_rotations,
    pair_samples,
    sample_stretches,
)
from equigeo.nn.module import may_overwrite
from equigeo.nn.state import SavedConfig
from equigeo.reps import Trivial


class AffineResNet(SavedConfig):
    """Classify images by a lifting, residual stages of group convolutions and a head.

    The default preset resamples an image in its moment frame, which removes translation, scale and
    stretch, convolves over SO(2) and space, and computes logits by an attention over the full
    circle. It is invariant to all rotations and does not distinguish 6 from 9. The paper preset
    samples ten elements of SL(2) or GL+(2), new ones for each batch in training and fixed ones in
    evaluation.

    Logits are invariant to affine maps of the image up to resolution and sampling; with an
    orientation window, only approximately to rotations. Second derivatives: see
    :class:`MomentFrame`. Reference: Mironenco and Forré, "Lie Group Decompositions for Equivariant
    Neural Networks", ICLR 2024.

    Parameters
    ----------
    config : AffineResNetConfig, optional
        Options; by default those of the default preset for ten classes.
    **changes
        Fields of the configuration that differ, as in :meth:`preset`.

    Examples
    --------
    >>> model = AffineResNet.preset("default", num_classes=10, in_channels=3).eval()
    >>> model(torch.rand(2, 3, 40, 40)).shape
    torch.Size([2, 10])
    """

    config_type = AffineResNetConfig

    def __init__(self, config: AffineResNetConfig | None = None, **changes: Any) -> None:
        super().__init__()
        config = AffineResNetConfig(10) if config is None else config
        check_config(config, AffineResNetConfig)
        self.config = config = override(config, changes)
        self.group = config.samples.make_group()
        frame, lift, head = config.frame, config.lift, config.head
        channels, norm = config.stages.channels, config.convolutions.norm
        self.frame = None
        if frame.use:
            self.frame = MomentFrame(
                frame.size, frame.extent, frame.smoothing, residual=frame.residual
            )
        spec = config.convolutions.kernel_spec(lift.size, lift.centers, config.samples.count)
        self.lift = LiftConv(
            self.group,
            config.in_channels,
            channels[0],
            spec,
            stride=lift.stride,
            padding=lift.padding,
        )
        self.lift_norm = sample_norm(norm, channels[0])
        self.stages = nn.ModuleList(
            ResidualStage(config, before, width)
            for before, width in zip((channels[0], *channels), channels, strict=False)
        )
        self.pool_norms = nn.ModuleList(sample_norm(norm, width) for width in channels)
        self.last = make_group_conv(config, channels[-1], head.features, head.size, 0)
        self.last_norm = sample_norm(norm, head.features)
        self.head = make_head(head, config.num_classes)
        # Fixed samples for evaluation; checkpoints do not contain samples.
        with plain_tensors():
            fixed = torch.Generator().manual_seed(0)
            first, last = _draw_samples(config, fixed), _draw_samples(config, fixed)
            if head.kind == "orientation":
                # Rotations up to 1.25 times the window, where it is exp(-1.25^4) = 0.09; further
                # ones have little influence.
                last = equidistant_rotations(head.rotations)
                angle = last.coordinates[:, -1].abs().rad2deg()
                # Include angles equal to the bound up to rounding; they are of the order of 100.
                last = last.select(torch.nonzero(angle <= 1.25 * head.window + 1e-6)[:, 0])
            self._fixed = first, last

    @classmethod
    def preset(cls, name: str, num_classes: int = 10, **changes: Any) -> AffineResNet:
        """Build the preset "default", or "paper", the published network over SL(2).

        ``changes`` are fields of :class:`AffineResNetConfig` that differ from the preset, those of
        a part as a mapping: ``in_channels=3, head={"dropout": 0.5}``.
        """
        if name == "default":
            return cls(AffineResNetConfig(num_classes), **changes)
        if name == "paper":
            return cls(AffineResNetConfig.paper(num_classes), **changes)
        raise ValueError(f"preset must be 'default' or 'paper', got {name!r}")

    @property
    def rep_in(self) -> Trivial:
        """Representation of pixel values, under the affine group or that of the samples."""
        return Trivial(self._moves(), self.config.in_channels)

    @property
    def rep_out(self) -> Trivial:
        """Invariant logits."""
        return Trivial(self._moves(), self.config.num_classes)

    def _moves(self) -> Affine:
        return MomentFrame.group if self.frame is not None else Affine(self.group)

    def forward(self, images: TensorLike) -> Tensor:
        """Classify images ``(B, in_channels, H, W)``, to logits ``(B, num_classes)``.

        Values are brightness or colors from 0, the background, to 1. Arrays take the dtype of the
        weights.
        """
        weight = next(self.parameters())
        x = as_tensor(images, "images", like=weight)
        check_shape(x, "images", ("B", self.config.in_channels, "H", "W"))
        check_like(x, "images", weight)
        config, (first, last) = self.config, self._samples(x)
        rim, overwrite = config.convolutions.rim, may_overwrite(self, x)
        again = (overwrite,) if overwrite else ()  # other stages have no such argument
        x = x if self.frame is None else disc_taper(self.frame(x), rim)
        x = disc_taper(activate(self.lift_norm, self.lift(x, first)[0], overwrite), rim, overwrite)
        for stage, norm, pool in zip(self.stages, self.pool_norms, config.stages.pool, strict=True):
            x = disc_taper(stage(x, first, *again), rim, overwrite)
            if pool:
                x = downsample(normalize(norm, x, overwrite), config.stages.pooling)
                x = disc_taper(gelu(x, overwrite), rim, overwrite)
        x, outputs = self.last(x, first, last)
        return self.head(activate(self.last_norm, x, overwrite), outputs)

    def _samples(self, like: Tensor) -> tuple[GroupSamples, GroupSamples]:
        """Return samples of all features but the last, and of the last."""
        first, last = self._fixed
        if self.training and self.config.samples.group != "SO":
            first, last = _draw_samples(self.config), _draw_samples(self.config)
        return first.to(device=like.device), last.to(device=like.device)


def _draw_samples(
    config: AffineResNetConfig, generator: torch.Generator | None = None
) -> GroupSamples:
    """Draw rotations for SO(2), else pairs of random stretches and equidistant rotations."""
    samples = config.samples
    rotations = equidistant_rotations(samples.count)
    if samples.group == "SO":
        return rotations
    stretches = sample_stretches(
        samples.make_group(), samples.count, samples.stretch_std, generator=generator
    )
    return pair_samples(stretches, rotations)


class GroupResidual(nn.Module):
    """Residual block of group convolutions, each followed by a norm and GELU."""

    def __init__(
        self,
        convs: Sequence[GroupConvolution],  # each preserves channels and pixels
        norm: Literal["batch", "layer"],
    ) -> None:
        super().__init__()
        self.convs = nn.ModuleList(convs)
        self.norms = nn.ModuleList(sample_norm(norm, conv.out_channels) for conv in convs)

    def forward(
        self,
        x: Tensor,  # (B, C, N, *S)
        samples: GroupSamples,
        overwrite: bool = False,  # results of layers
    ) -> Tensor:  # (B, C, N, *S)
        """Convolve and add the input; the samples do not change."""
        y = x
        for conv, norm in zip(self.convs, self.norms, strict=True):
            y = activate(norm, conv(y, samples)[0], overwrite)
        return y.add_(x) if overwrite else x + y


class ResidualStage(nn.Module):
    """Residual blocks, after a convolution if the number of channels changes."""

    def __init__(
        self,
        config: AffineResNetConfig,
        channels: int,  # channels of the input
        width: int,  # channels of the output
    ) -> None:
        super().__init__()
        stages, norm = config.stages, config.convolutions.norm
        padding = stages.size // 2  # keeps the resolution, as the size is odd
        self.widen, self.widen_norm = None, None
        if channels != width:
            self.widen = make_group_conv(config, channels, width, stages.size, padding)
            self.widen_norm = sample_norm(norm, width)
        self.blocks = nn.ModuleList()
        for _ in range(stages.blocks):
            convs = [
                make_group_conv(config, width, width, stages.size, padding)
                for _ in range(stages.convs)
            ]
            self.blocks.append(GroupResidual(convs, norm))

    def forward(self, x: Tensor, samples: GroupSamples, overwrite: bool = False) -> Tensor:
        """Convolve; arguments as of :class:`GroupResidual`, with ``width`` output channels."""
        if self.widen is not None and self.widen_norm is not None:
            x = activate(self.widen_norm, self.widen(x, samples)[0], overwrite)
        for block in self.blocks:
            x = block(x, samples, *((overwrite,) if overwrite else ()))
        return x


def make_group_conv(
    config: AffineResNetConfig,
    channels: int,  # channels of the input
    width: int,  # channels of the output
    size: int,  # kernel size in pixels
    padding: int,
) -> GroupConvolution:
    """Build a group convolution of a network, without bias since a norm follows."""
    convolutions, samples = config.convolutions, config.samples
    spec = convolutions.kernel_spec(size, convolutions.centers, samples.count)
    group = samples.make_group()
    if convolutions.separable:
        return SeparableGroupConv(
            group, channels, width, spec, spatial="dense", padding=padding, bias=False
        )
    return GroupConv(group, channels, width, spec, padding=padding, bias=False)


def activate(norm: nn.Module, x: Tensor, overwrite: bool) -> Tensor:
    """Normalize features and apply GELU."""
    return gelu(normalize(norm, x, overwrite), overwrite)


def gelu(x: Tensor, overwrite: bool) -> Tensor:
    """Apply GELU, in the memory of the features if it may be overwritten."""
    return torch.ops.aten.gelu_(x) if overwrite else F.gelu(x)


def downsample(
    x: Tensor,  # (..., C, H, W), zero beyond the edges
    pooling: Literal["binomial", "max"],
) -> Tensor:  # (..., C, H // 2, W // 2)
    """Downsample features of the plane by two, with binomial weights or maxima."""
    if pooling == "max":
        return F.max_pool2d(x.flatten(0, -3), 2).unflatten(0, x.shape[:-2])
    # Weights (1, 3, 3, 1) / 8 per axis suppress the frequencies that the mean of two and the
    # maximum alias: Zhang, "Making Convolutional Networks Shift-Invariant Again", ICML 2019.
    down, right = (_binomial(size, x) for size in x.shape[-2:])
    # Layers leave channels innermost, then samples: rows in that order are a view.
    order = [0, x.ndim - 2, x.ndim - 1, *range(x.ndim - 3, 0, -1)]
    rows = x.permute(order)
    y = torch.bmm(down.expand(len(x), -1, -1), rows.flatten(2))
    y = y.view(len(x) * len(down), x.shape[-1], math.prod(x.shape[1:-2]))
    y = torch.bmm(right.expand(len(y), -1, -1), y)
    y = y.view(len(x), len(down), len(right), *rows.shape[3:])
    return y.permute(0, *range(x.ndim - 1, 2, -1), 1, 2)


def _binomial(size: int, like: Tensor) -> Tensor:
    """Return the matrix that weighs an axis, (size // 2, size)."""
    rows = 2 * torch.arange(size // 2, device=like.device)[:, None]
    distance = (2 * torch.arange(size, device=like.device) - 2 * rows - 1).abs()
    # Distances of pixel middles from the middle of a pair, in half pixels: 1 and 3 on both sides.
    near, far = like.new_tensor(3 / 8), like.new_tensor(1 / 8)
    return torch.where(distance == 1, near, torch.where(distance == 3, far, torch.zeros_like(far)))


def disc_taper(
    x: Tensor,  # (..., H, W)
    rim: float,  # share of the radius over which features decrease; 0 returns x
    overwrite: bool = False,  # x
) -> Tensor:
    """Taper features of the plane to zero at the inscribed circle."""
    if rim == 0:
        return x
    # A square of nonzero features has edges that do not rotate with the image.
    # Pixel centers, with image edges at -1 and 1.
    down, right = (
        (2 * torch.arange(size, dtype=x.dtype, device=x.device) + 1) / size - 1
        for size in x.shape[-2:]
    )
    radius = (down[:, None].square() + right.square()).sqrt()
    t = ((1 - radius) / rim).clamp(0, 1)
    taper = t.square() * (3 - 2 * t)  # cubic with zero slope at both ends
    return x.mul_(taper) if overwrite else x * taper


# Factors on attention scores and on the prior, whose weights start at zero: an optimizer step
# changes scores 4x and the prior 40x as much as a plain linear layer. Chosen on transformed
# validation digits.
_SHARPNESS = 4
_PRIOR_SHARPNESS = 40


class OrientationHead(nn.Module):
    """Compute logits at one orientation, found by attention over rotations."""

    # l = W sum_i a_i x_i + b with a = softmax_i(4 u . x_i + 40 p(theta_i) - (theta_i / w)^4). All
    # classes share one score, so that they are evaluated at the same orientation. Invariant to
    # rotations unless the prior p is trained or there is a window.
    def __init__(
        self,
        channels: int,
        num_classes: int,
        window: float = 180.0,  # w in degrees; 180 or more disables it
        dropout: float = 0.0,  # applied to channels after the attention
        prior: int = 0,  # number of frequencies of p, a Fourier series that starts at zero
        # largest error in degrees of the angles of p in training, so that it stays smooth
        prior_noise: float = 0.0,
    ) -> None:
        super().__init__()
        self.window = window
        self.prior_noise = prior_noise
        self.prior = nn.Parameter(torch.zeros(2 * prior))  # of cosines, then of sines
        self.attend = nn.Linear(channels, 1, bias=False)
        nn.init.zeros_(self.attend.weight)  # at first a mean over the window
        self.dropout = nn.Dropout(dropout)
        self.classify = nn.Linear(channels, num_classes)

    def forward(
        self,
        x: Tensor,  # (B, C, N, *S)
        samples: GroupSamples,  # rotations of the plane
    ) -> Tensor:  # (B, num_classes)
        """Compute logits, averaging pixels."""
        x = x.flatten(3).mean(3)
        weight = self.attention(x, samples)
        return self.classify(self.dropout((x * weight[:, None]).sum(2)))

    def attention(
        self,
        x: Tensor,  # (B, C, N)
        samples: GroupSamples,  # rotations of the plane
    ) -> Tensor:  # (B, N), sum 1
        """Return the weights of the orientations."""
        score = _SHARPNESS * self.attend(x.mT)[..., 0]
        angle = samples.coordinates[:, -1].to(x)
        if len(self.prior):
            seen = angle
            if self.training and self.prior_noise:
                error = math.radians(self.prior_noise) * (2 * torch.rand_like(x[:, :1, 0]) - 1)
                seen = angle + error
            order = torch.arange(1, len(self.prior) // 2 + 1, device=x.device)
            turns = seen[..., None] * order.to(x.dtype)
            waves = torch.cat([turns.cos(), turns.sin()], -1)
            score = score + _PRIOR_SHARPNESS * waves @ self.prior
        if self.window < 180:
            # A fourth power is smooth, flat inside the window and steep at its rim.
            score = score - (angle / math.radians(self.window)) ** 4
        return score.softmax(1)


class MaxHead(nn.Module):
    """Compute logits by a maximum over group and space and a perceptron."""

    def __init__(
        self,
        channels: int,
        num_classes: int,
        dropout: float = 0.0,  # applied to hidden channels
        hidden: int = 256,  # width of the perceptron
    ) -> None:
        super().__init__()
        self.pool = GroupPool("max")
        self.classify = nn.Sequential(
            nn.Linear(channels, hidden, bias=False),
            nn.LayerNorm(hidden),
            nn.GELU(),
            nn.Dropout(dropout),
            nn.Linear(hidden, num_classes),
        )

    def forward(
        self,
        x: Tensor,  # (B, C, N, *S)
        samples: GroupSamples,
    ) -> Tensor:  # (B, num_classes)
        """Compute logits."""
        return self.classify(self.pool(x, samples))


def make_head(config: HeadConfig, num_classes: int) -> nn.Module:
    """Build the head of a configuration, which maps features and samples to logits."""
    if config.kind == "max":
        return MaxHead(config.features, num_classes, config.dropout)
    return OrientationHead(
        config.features,
        num_classes,
        config.window,
        config.dropout,
        config.prior,
        config.prior_noise,
    )
