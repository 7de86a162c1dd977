"""Configurable point networks on invariant coordinates, also for upright clouds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Final, Literal

import torch
from torch import Tensor, nn

from equigeo._core.checks import TensorLike, as_tensor, check_like
from equigeo._core.config import Config, Range, check_config, override
from equigeo.mds.embed import embed
from equigeo.mds.invariant import Invariant
from equigeo.mds.options import EmbedOptions
from equigeo.nn.state import SavedConfig
from equigeo.points import DGCNN, PointNet, PointNetPlusPlus, PointTransformer, pad_clouds
from equigeo.points.layers import PointNetwork
from equigeo.reps import Points, Trivial

DIRECTIONS = 6  # three axes, forwards and backwards
_QUIET = EmbedOptions(fallback="ignore")

# By the name that configurations carry.
NETWORKS: Final[dict[str, type[PointNetwork]]] = {
    "pointnet": PointNet,
    "pointnet++": PointNetPlusPlus,
    "dgcnn": DGCNN,
    "transformer": PointTransformer,
}

_POINT_NET_PLUS_PLUS: dict[str, Any] = {
    "network": "pointnet++",
    "settings": {"groups": (128, 32), "neighbors": 20},
    "kind": "frames",
    "training_kind": "frames",
    "training_sample": True,
    "upright": True,
}

PRESETS: dict[str, dict[str, Any]] = {
    "default": _POINT_NET_PLUS_PLUS,
    "pointnet": {"network": "pointnet"},
    "pointnet++": _POINT_NET_PLUS_PLUS,
    "dgcnn": {
        "network": "dgcnn",
        "settings": {
            "widths": (32, 32, 64, 128),
            "neighbors": 16,
            "features": 256,
            "hidden": (256, 128),
        },
    },
    "transformer": {"network": "transformer"},
}


@dataclass(frozen=True)
class InvariantPointNetConfig(Config):
    """Options of an :class:`equigeo.mds.InvariantPointNet`.

    Parameters
    ----------
    num_classes : int
        Number of logits.
    network : {"pointnet", "pointnet++", "dgcnn", "transformer"}
        Network of the embedded points.
    settings : dict of JSON types
        Arguments of the network that differ from its defaults.
    group, kind, training_kind, training_sample, reduce
        See :class:`equigeo.mds.Invariant`.
    upright : bool
        Whether the network has a logit per class and up direction, to learn from upright clouds;
        needs a group.

    Examples
    --------
    >>> config = InvariantPointNetConfig(10, "dgcnn", {"neighbors": 8})
    >>> InvariantPointNetConfig.from_dict(config.to_dict()) == config
    True
    """

    num_classes: int
    network: Literal["pointnet", "pointnet++", "dgcnn", "transformer"] = "pointnet"
    settings: dict[str, Any] = field(default_factory=dict)
    group: Literal["O", "SO"] | None = "O"
    kind: str = "skew"
    training_kind: str = "skew"
    training_sample: bool = False
    reduce: Literal["mean", "min", "max"] = "mean"
    upright: bool = False

    ranges: ClassVar[Mapping[str, Range]] = {
        "num_classes": Range(1, 10**6),
        "settings": Range(0, 65_536),
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.upright and self.group is None:
            raise ValueError("upright needs a group: without, up is where the last axis points")


class InvariantPointNet(SavedConfig):
    """A configurable point network behind :class:`equigeo.mds.Invariant`, for clouds in 3D.

    Equivariance
    ------------
    Invariant under rotations, reflections, translations, scalings and permutations, for clouds that
    are not flagged; without a group under translations, scalings and permutations.

    References
    ----------
    Zhang et al., "Revisiting transformation invariant geometric deep learning", 2021.

    Examples
    --------
    >>> import torch
    >>> model = InvariantPointNet.preset("pointnet", num_classes=10).eval()
    >>> x = torch.rand(2, 100, 3)
    >>> torch.allclose(model(x), model(3 - 2 * x.flip(-1)), atol=1e-4)
    True
    """

    config_type = InvariantPointNetConfig
    # Averages over frames may differ between training and evaluation.
    _unsaved_fields = SavedConfig._unsaved_fields | {"kind", "training_kind", "training_sample"}

    def __init__(self, config: InvariantPointNetConfig) -> None:
        super().__init__()
        check_config(config, InvariantPointNetConfig)
        self.config = config
        try:
            outputs = config.num_classes * (DIRECTIONS if config.upright else 1)
            network: nn.Module = NETWORKS[config.network](outputs, **config.settings)
        except TypeError as error:
            raise ValueError(f"settings do not fit {config.network}: {error}") from error
        if config.upright:
            network = UprightNetwork(network, config.num_classes)
        self.invariant = Invariant(
            network,
            group=config.group,
            kind=config.kind,
            options=replace(
                _QUIET,
                training_kind=config.training_kind,
                training_sample=config.training_sample,
                reduce=config.reduce,
            ),
        )

    @classmethod
    def preset(cls, name: str, num_classes: int, **changes: Any) -> InvariantPointNet:
        """Build a preset: "pointnet", "pointnet++" (the "default"), "dgcnn" or "transformer".

        ``changes`` override fields of :class:`equigeo.mds.InvariantPointNetConfig`; ``settings`` is
        a mapping of single overrides. PointNet++ averages over eight frames, in training over one.
        """
        if name not in PRESETS:
            raise ValueError(f"preset must be one of {', '.join(PRESETS)}, got {name!r}")
        return cls(override(InvariantPointNetConfig(num_classes, **PRESETS[name]), changes))

    @property
    def rep_in(self) -> Points:
        """Representation of the positions of points."""
        return self.invariant.points

    @property
    def rep_out(self) -> Trivial:
        """Invariant logits."""
        return Trivial(self.invariant.points.group, self.config.num_classes)

    def forward(
        self,
        points: TensorLike,
        mask: TensorLike | None = None,
        *,
        batch: TensorLike | None = None,
        ptr: TensorLike | None = None,
    ) -> Tensor:
        """Compute the logits of clouds, (B, num_classes).

        Parameters
        ----------
        points : Tensor or ndarray, (B, points, 3), or (rows, 3) with ``batch`` or ``ptr``
            Floating; arrays take the dtype of the weights.
        mask : Tensor, (B, points), bool, optional
            False for points to ignore.
        batch, ptr : Tensor, int64, optional
            See :func:`embed`.
        """
        weight = next(self.parameters())
        x = as_tensor(points, "points", like=weight)
        check_like(x, "points", weight)
        if batch is not None or ptr is not None:
            if mask is not None:
                raise ValueError("mask goes with (B, points, 3), not with batch or ptr; got both")
            x, mask = pad_clouds(x, batch=batch, ptr=ptr)
        return self.invariant(x, mask, mask=mask)

    def pairs(self, points: Tensor) -> tuple[Tensor, Tensor]:
        """Return logits per class and direction, (B, num_classes, 6), and the true direction.

        For training on upright clouds (B, points, 3), the last coordinate upwards, in one random
        frame per cloud; only with ``upright=True``.
        """
        network = self.invariant.network
        if not isinstance(network, UprightNetwork):
            raise ValueError("pairs are there where upright is True, got False")
        y = self.invariant.draw(points)
        return network.pairs(y), direction_up(points, y)

    def flagged(self, points: Tensor, mask: Tensor | None = None) -> Tensor | None:
        """Return a mask (B,) of clouds with embeddings that are not invariant up to rounding.

        At default thresholds, for any frames; None without a group.
        """
        if self.config.group is None:
            return None
        return embed(points, mask=mask, group=self.config.group, options=_QUIET).flagged


class UprightNetwork(nn.Module):
    """Classify by the sum over all axis directions that may be up."""

    # The network has a logit per class and direction. For upright training clouds the direction is
    # known, which teaches the network to distinguish lying from standing shapes.
    def __init__(
        self,
        network: nn.Module,  # maps points to the logits of all pairs, directions fastest
        num_classes: int,
    ) -> None:
        super().__init__()
        self.network, self.num_classes = network, num_classes

    def forward(
        self,
        x: Tensor,  # (B, points, dim), in principal axes
        mask: Tensor | None = None,  # (B, points), bool
    ) -> Tensor:  # (B, num_classes)
        """Return logits, the log-sum-exp over directions."""
        return self.pairs(x, mask).logsumexp(-1)

    def pairs(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """Return the logits of pairs, (B, num_classes, directions)."""
        logits: Tensor = self.network(x, mask)
        return logits.unflatten(-1, (self.num_classes, -1))


def direction_up(
    points: Tensor,  # (..., points, dim)
    y: Tensor,  # (..., points, dim), the points in principal axes about the origin
) -> Tensor:  # (...), int64
    """Return the axis direction nearest to the last axis of space: 2 axis, plus 1 if down."""
    height = points[..., -1:] - points[..., -1:].mean(-2, keepdim=True)
    spread = y.square().sum(-2).clamp_min(torch.finfo(y.dtype).tiny)
    slope = (height * y).sum(-2) / spread  # components of the last axis of space, by least squares
    axis = slope.abs().argmax(-1, keepdim=True)
    return (2 * axis + (slope.gather(-1, axis) < 0))[..., 0]
