"""Networks of points, made invariant."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Final, Literal

import torch
from torch import Tensor, nn

from equigeo._core.checks import TensorLike, as_tensor, check_like, kind_of, takes_integers
from equigeo._core.config import Config, Range, check_config, override, within
from equigeo._core.deprecation import moved_arguments
from equigeo._core.tensors import HALF, values_readable
from equigeo.groups import SO, Affine, LinearGroup, O, Scaling
from equigeo.mds.embed import MDSResult, check_choices, embed
from equigeo.mds.frames import (
    KINDS,
    draw_frames,
    frame_average,
    frame_components,
    frame_lift,
    frames,
)
from equigeo.mds.options import DEFAULT, EmbedOptions, FrameSet
from equigeo.nn.state import SavedConfig
from equigeo.points import DGCNN, PointNet, PointNetPlusPlus, PointTransformer, pad_clouds
from equigeo.points.clouds import hint
from equigeo.points.layers import PointNetwork
from equigeo.reps import Points, Representation, Trivial

_GROUPS: dict[str | None, type[LinearGroup]] = {"O": O, "SO": SO, None: Scaling}


@moved_arguments("options", EmbedOptions, "training_kind", "training_sample", "reduce")
@takes_integers
class Invariant(nn.Module):
    """Apply a network to embedded points.

    Invariant, or equivariant with ``rep_out``, under isometries of the group and, unless ``scale``
    is ``"none"``, similarities, for clouds that are not flagged or have exact frames; under
    permutations as the network is. Rotations need no augmentation; jitter points before, and
    stretch or reflect coordinates inside the network. References: Zhang et al., "Revisiting
    transformation invariant geometric deep learning", 2021; Puny et al., "Frame averaging for
    invariant and equivariant network design", 2022.

    Parameters
    ----------
    network : nn.Module
        Called with coordinates instead of points, and the other arguments.
    dim : int
        Dimension of space, at least 2.
    group, scale
        See :func:`embed`. With ``group=None`` clouds are only centered and scaled, as a baseline.
    kind : {"skew", "joint", "frames", "soft", "harmonic", "anchor", "weighted"}
        One frame with signs by skewness, or an average over :func:`frames` with one pass each.
    options : EmbedOptions
        With ``training_kind``, ``training_sample`` and ``reduce``, among others.
    rep_features, rep_out : Representation, optional
        Representations of features, the first argument after the points, which the network gets as
        components in each frame; and of the output, lifted by the frames. Invariants by default.

    Examples
    --------
    >>> network = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 2))
    >>> model = Invariant(network, scale="none").double()
    >>> x = torch.tensor([[0.0, 0, 0], [1, 0, 0], [1, 2, 0], [1, 2, 3]]).double()
    >>> torch.allclose(model(x), model(x.flip(-1) + 1))
    True
    """

    def __init__(
        self,
        network: nn.Module,
        *,
        dim: int = 3,
        group: str | None = "O",
        scale: str = "rms",
        kind: str = "skew",
        options: EmbedOptions = DEFAULT,
        rep_features: Representation | None = None,
        rep_out: Representation | None = None,
    ) -> None:
        super().__init__()
        check_choices(group=group, sign="skew", scale=scale)
        training_kind = options.training_kind or kind
        for name, value in (("kind", kind), ("training_kind", training_kind)):
            if value not in ("skew", *KINDS):
                raise ValueError(f"{name} must be one of {('skew', *KINDS)}, got {value!r}")
            if value != "skew" and group is None:
                raise ValueError(f"{name} must be 'skew' where there is no group, got {value!r}")
        self.network = network
        # Read once: a signature is slow to read, and compilers cannot.
        self._positional, self._takes_batch, self._takes_ptr = _arguments_of(network)
        moves = Affine(_GROUPS[group](dim))
        self.points = Points(moves)
        self.rep_features, self._rep_lifted = (
            _restricted(rep, moves, group) for rep in (rep_features, rep_out)
        )
        if self._rep_lifted is not None and options.reduce != "mean":
            raise ValueError(
                "what turns has neither least nor largest: reduce must be 'mean', "
                f"got {options.reduce!r}"
            )
        self.group, self.scale, self.options = group, scale, options
        self.kind, self.training_kind = kind, training_kind

    @property
    def rep_out(self) -> Representation:
        """Representation of the output; by default ``Trivial(group, 1)``, for invariants."""
        return Trivial(self.points.group, 1) if self._rep_lifted is None else self._rep_lifted

    @property
    def rep_in(self) -> Representation | tuple[Representation, ...]:
        """Representations of the points, and of equivariant features, of rigid motions."""
        return self.points if self.rep_features is None else (self.points, self.rep_features)

    def forward(
        self,
        x: TensorLike,
        *arguments: Any,
        mask: TensorLike | None = None,
        ptr: TensorLike | None = None,
        batch: TensorLike | None = None,
        weights: TensorLike | None = None,
        **keywords: Any,
    ) -> Tensor:
        """Embed points and apply the network.

        Raises ``ValueError`` if the first argument looks like a ``batch`` under another name, or
        the network, given ragged clouds, returns neither one row per point nor, if it knows the
        clouds, one per cloud.

        Parameters
        ----------
        x : Tensor or ndarray, (..., points, dim) or, with ``ptr`` or ``batch``, (rows, dim)
            Clouds. Arrays take the dtype of the network.
        *arguments, **keywords
            Further arguments of the network. One that its ``forward`` calls ``batch`` assigns rows
            to clouds, as in PyTorch Geometric: ``model(pos, batch)``. With ``rep_features`` the
            first holds features (..., points, *, dim) or, per cloud, (..., *, dim), and is passed
            as components.
        mask, weights, ptr, batch : Tensor, optional
            See :func:`embed`. The network gets ``ptr`` and ``batch`` if it has arguments of these
            names, but no ``mask`` or ``weights``.
        """
        x = self._given_points(x)
        if batch is None:
            batch = self._batch_among(len(x), arguments, ptr)
        elif self._takes_batch:
            keywords["batch"] = batch
        if ptr is not None and self._takes_ptr:
            keywords["ptr"] = ptr
        found = self._frames(x, mask=mask, ptr=ptr, batch=batch, weights=weights)
        if self.training and self.options.training_sample and isinstance(found, FrameSet):
            found = draw_frames(found)
        arguments, seen = self._components(arguments, found)

        def answer(y: Tensor, *components: Tensor) -> Tensor:
            stored = (self._as_stored(t, x) for t in (y, *components))
            result: Tensor = self.network(*stored, *arguments, **keywords)
            _check_rows(result, found, knows_clouds=bool(arguments or components or keywords))
            return result

        if self._rep_lifted is not None:
            return _lifted(answer, found, seen, self._rep_lifted)
        if isinstance(found, MDSResult):
            return answer(found.y, *seen)
        given = (*arguments, *seen, *keywords.values())
        if found.weight.ndim == 2 and found.ptr is None and all(v is None for v in given):
            return self._average_of_used(answer, found)
        return frame_average(answer, found, *seen, reduce=self.options.reduce)

    def _average_of_used(self, answer: Callable[..., Tensor], found: FrameSet) -> Tensor:
        """Average over frames with one pass per cloud and frame in use."""
        used = found.weight.detach() > 0
        clouds = used.shape[1]
        if self.options.reduce != "mean" or bool(used.all()):
            return frame_average(answer, found, reduce=self.options.reduce)
        frame, cloud = used.nonzero(as_tuple=True)
        y = found.y[frame, cloud]
        # In training all at once, as batch normalization raises for a single cloud.
        parts = [answer(part) for part in (y.split(len(y) if self.training else clouds))]
        values = torch.cat(parts)
        if len(values) != len(y):
            raise ValueError(
                f"values must begin with the batch axes ({clouds},), "
                f"got shape {tuple(parts[0].shape)}"
            )
        weight = found.weight[frame, cloud].to(values.dtype)
        terms = weight.view(-1, *[1] * (values.ndim - 1)) * values
        return values.new_zeros(clouds, *values.shape[1:]).index_add(0, cloud, terms)

    def _components(
        self, arguments: tuple[Any, ...], found: FrameSet | MDSResult
    ) -> tuple[tuple[Any, ...], tuple[Tensor, ...]]:
        """Return the other arguments, with the first in each frame if it is equivariant."""
        if self.rep_features is None:
            return arguments, ()
        if not arguments:
            raise TypeError(f"features of {self.rep_features} must follow the points, got none")
        per_point = _is_per_point(len(arguments[0]), found)
        return arguments[1:], (
            frame_components(arguments[0], found, self.rep_features, per_point=per_point),
        )

    def draw(
        self,
        x: TensorLike,
        *,
        mask: TensorLike | None = None,
        ptr: TensorLike | None = None,
        batch: TensorLike | None = None,
        weights: TensorLike | None = None,
    ) -> Tensor:
        """Return coordinates of points in one of the frames, drawn at random per cloud.

        Arguments: see :meth:`forward`. The result has the shape of ``x``.
        """
        found = self._frames(
            self._given_points(x), mask=mask, ptr=ptr, batch=batch, weights=weights
        )
        return found.y if isinstance(found, MDSResult) else draw_frames(found).y[0]

    def _as_stored(self, y: Tensor, x: Tensor) -> Tensor:
        """Cast coordinates of half-precision points from float32 to the dtype of the weights."""
        weight = next(self.network.parameters(), None)
        return y if weight is None or x.dtype not in HALF else y.to(weight.dtype)

    def _batch_among(
        self, rows: int, arguments: tuple[Any, ...], ptr: TensorLike | None
    ) -> TensorLike | None:
        """Return the batch vector among the arguments of the network, in its convention."""
        if ptr is not None or not arguments:
            return None
        for name, value in zip(self._positional, arguments, strict=False):
            if name == "batch":
                return value
        if _is_batch(arguments[0], rows):
            raise ValueError(
                "the int64 vector after the points looks like the batch of several clouds: pass it "
                "by name, batch=..., or ptr=torch.tensor([0, len(x)]) if there is one cloud"
            )
        return None

    def _given_points(self, x: TensorLike) -> Tensor:
        """Convert and validate clouds of the dimension of this module."""
        x = as_tensor(x, "points", like=next(self.network.parameters(), None))
        shape, dim = tuple(x.shape), self.points.dim
        if len(shape) < 2 or shape[-1] != dim:
            end = hint(shape, "points", dim, batched=False)
            raise ValueError(f"points must be (..., points, {dim}), got {shape}{end}")
        return x

    def _frames(self, x: Tensor, **clouds: TensorLike | None) -> FrameSet | MDSResult:
        """Return the only frame, or all frames."""
        choices: dict[str, Any] = {
            **clouds,
            "group": self.group,
            "scale": self.scale,
            "options": self.options,
        }
        kind = self.training_kind if self.training else self.kind
        if kind != "skew":
            return frames(x, kind=kind, **choices)
        result = embed(x, **choices)
        return result if result.frames is None else result.frames

    def extra_repr(self) -> str:
        return f"group={self.group!r}, scale={self.scale!r}, kind={self.kind!r}"


def _lifted(
    answer: Callable[..., Tensor],
    found: FrameSet | MDSResult,
    seen: tuple[Tensor, ...],
    rep: Representation,
) -> Tensor:
    """Rotate the outputs of a network in each frame back and average them."""
    if isinstance(found, MDSResult):
        values = answer(found.y, *seen)
        rows = len(values)
    else:
        values = torch.stack([answer(*parts) for parts in zip(found.y, *seen, strict=True)])
        rows = values.shape[1]
    return frame_lift(values, found, rep, per_point=_is_per_point(rows, found))


def _check_rows(value: object, found: FrameSet | MDSResult, *, knows_clouds: bool) -> None:
    """Raise if a network treated ragged clouds as one cloud."""
    if found.ptr is None or not isinstance(value, Tensor):
        return
    points, clouds = found.y.shape[found.y.ndim - 2], len(found.ptr) - 1
    rows = len(value) if value.ndim else 0
    if clouds == 1 or rows == points or (rows == clouds and knows_clouds):
        return
    raise ValueError(
        f"of {clouds} clouds with {points} points the network returned {tuple(value.shape)}: it "
        "does not know where clouds end; add an argument batch or ptr to it, or embed first and "
        "call it with the coordinates"
    )


def _is_per_point(rows: int, found: FrameSet | MDSResult) -> bool:
    """Return whether rows belong to points instead of clouds, even for equal numbers."""
    if found.ptr is None:
        return False
    points, clouds = found.y.shape[found.y.ndim - 2], len(found.ptr) - 1
    if rows != clouds or points != clouds:
        return rows != clouds
    if values_readable(found.ptr) and bool((found.ptr.diff() != 1).any()):
        raise ValueError(
            f"{rows} rows may be of points or of clouds, of which there are as many: leave out "
            "empty clouds"
        )
    return False  # every cloud has one point


def _restricted(
    rep: Representation | None, moves: Affine, group: str | None
) -> Representation | None:
    """Extend a representation of the group of linear parts to all motions."""
    if rep is None:
        return None
    if not isinstance(rep, Representation):
        raise TypeError(f"features must have a Representation, got {kind_of(rep)}")
    if group is None:
        raise ValueError(f"{rep} needs frames, and there are none where group is None")
    return Points(moves) if isinstance(rep, Points) else rep.restrict(moves)


def _arguments_of(network: nn.Module) -> tuple[tuple[str, ...], bool, bool]:
    """Return positional arguments of a network after the points, and its use of batch and ptr."""
    try:
        parameters = inspect.signature(network.forward).parameters.values()
    except (TypeError, ValueError):  # scripted, or written in C
        return (), False, False
    by_position = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    names = tuple(p.name for p in parameters if p.kind in by_position)
    takes = any(p.name == "batch" or p.kind is p.VAR_KEYWORD for p in parameters)
    return names[1:], takes, any(p.name == "ptr" for p in parameters)


def _is_batch(value: object, rows: int) -> bool:
    """Return whether an argument numbers clouds from 0 without gaps, if values can be read."""
    if not isinstance(value, Tensor) or value.dtype != torch.int64 or value.shape != (rows,):
        return False
    if not values_readable(value) or rows == 0:
        return False
    steps = value.diff()
    counts = bool(((steps == 0) | (steps == 1)).all()) and int(value[0]) == 0
    return counts and 0 < int(value[-1]) < rows - 1


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

    num_classes: int = within(1, 10**6)
    network: Literal["pointnet", "pointnet++", "dgcnn", "transformer"] = "pointnet"
    settings: dict[str, Any] = field(default_factory=dict)
    group: Literal["O", "SO"] | None = "O"
    kind: str = "skew"
    training_kind: str = "skew"
    training_sample: bool = False
    reduce: Literal["mean", "min", "max"] = "mean"
    upright: bool = False

    ranges: ClassVar[Mapping[str, Range]] = {
        "settings": Range(0, 65_536),
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.upright and self.group is None:
            raise ValueError("upright needs a group: without, up is where the last axis points")


class InvariantPointNet(SavedConfig):
    """A configurable point network behind :class:`equigeo.mds.Invariant`, for clouds in 3D.

    Invariant under rotations, reflections, translations, scalings and permutations, for clouds that
    are not flagged; without a group under translations, scalings and permutations. Reference: Zhang
    et al., "Revisiting transformation invariant geometric deep learning", 2021.

    Examples
    --------
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
        in_options = ("training_kind", "training_sample", "reduce")
        self.invariant = Invariant(
            network,
            group=config.group,
            kind=config.kind,
            options=replace(_QUIET, **{name: getattr(config, name) for name in in_options}),
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
