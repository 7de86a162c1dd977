"""Base class of point networks, and their layers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from functools import wraps
from inspect import signature
from itertools import chain, pairwise
from typing import Any, TypeVar, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from equigeo._core.checks import TensorLike, as_tensor, check_batch_size, check_like, takes_integers
from equigeo._core.tensors import forward_mode_active, runs_own_code, transforms_active
from equigeo.graphs.edge_index import cloud_offsets
from equigeo.points.clouds import check_some_points, gather_rows, given_mask, hint, pad_clouds
from equigeo.points.neighbors import nearest_neighbors
from equigeo.points.sampling import farthest_point_sampling

_Network = TypeVar("_Network", bound=type)


def takes_positive(cls: _Network) -> _Network:
    """Decorate a network: sizes become int and must be positive, ``dropout`` is in [0, 1)."""
    init = cls.__init__  # type: ignore[misc]
    parameters = signature(init).parameters.values()
    names = [parameter.name for parameter in parameters]
    defaults = {p.name: p.default for p in parameters if p.default is not p.empty}

    @wraps(init)
    def checked(*args: Any, **named: Any) -> None:
        for name, value in (defaults | dict(zip(names, args, strict=False)) | named).items():
            if name == "dropout":
                if not 0 <= value < 1:
                    raise ValueError(f"dropout must be at least 0 and less than 1, got {value}")
            elif name in names[1:] and not isinstance(value, bool):
                _check_positive(name, value)
        init(*args, **named)

    cls.__init__ = checked  # type: ignore[misc]
    return takes_integers(cls)


def _check_positive(name: str, value: Any) -> None:
    """Raise for a size that is not positive; only ``hidden`` may be empty."""
    if not isinstance(value, int):
        value = tuple(chain.from_iterable(x if isinstance(x, tuple) else (x,) for x in value))
    if min((value,) if isinstance(value, int) else value, default=name == "hidden") < 1:
        raise ValueError(f"{name} must be positive, got {value}")


@takes_positive
class PointNetwork(nn.Module, ABC):
    """Classifier of point clouds with optional padding."""

    head: PointHead

    def __init__(self, dim: int = 3) -> None:
        super().__init__()
        self.dim = dim

    def forward(
        self,
        points: TensorLike,
        mask: TensorLike | None = None,
        *,
        batch: TensorLike | None = None,
        ptr: TensorLike | None = None,
    ) -> Tensor:
        """Return logits (..., num_classes), or (clouds, num_classes) with ``batch`` or ``ptr``."""
        x = self._given_points(points)
        if batch is not None or ptr is not None:
            return self._classify_rows(x, mask, batch, ptr)
        there = given_mask(mask, x.shape[:-1])
        shape, x = x.shape, _one_batch(x, 2)
        if there is not None:
            check_some_points(there)
            there = _one_batch(there, 1)
            x = x.masked_fill(~there[..., None], 0)
        logits = self._classify(x, there)
        return logits.view(*shape[:-2], logits.shape[-1])

    def _given_points(self, points: TensorLike) -> Tensor:
        weight = next(self.parameters())
        x = as_tensor(points, "points", like=weight)
        shape = tuple(x.shape)
        if len(shape) < 2 or shape[-1] != self.dim or shape[-2] == 0:
            end = hint(shape, "points", self.dim, batched=False)
            raise ValueError(
                f"points must be (..., points, {self.dim}) with at least one point, "
                f"got {shape}{end}"
            )
        if not x.is_floating_point():
            raise ValueError(f"points must be floating, got {x.dtype}")
        check_like(x, "points", weight)
        return x

    def _classify_rows(
        self,
        x: Tensor,
        mask: TensorLike | None,
        batch: TensorLike | None,
        ptr: TensorLike | None,
    ) -> Tensor:
        """Classify clouds given as concatenated rows."""
        if mask is not None or x.ndim != 2:
            raise ValueError(
                f"points of a batch must be (rows, {self.dim}) without mask, got {tuple(x.shape)}"
            )
        offsets = cloud_offsets(len(x), batch, ptr)
        if offsets is None or bool((offsets.diff() < 1).any()):
            raise ValueError("every cloud of a batch must have a point, got one without")
        return self._classify(*pad_clouds(x, ptr=offsets))

    def _classify(self, x: Tensor, mask: Tensor | None) -> Tensor:
        for layer in cast("Iterable[PointLayer]", self.head.hidden):
            check_batch_size(layer.norm, x.shape[0], "clouds")
        return self.classify(x, mask)

    @abstractmethod
    def classify(self, x: Tensor, mask: Tensor | None) -> Tensor:
        """Classify a zero-padded batch, (B, points, dim), to (B, num_classes)."""


def _one_batch(x: Tensor, axes: int) -> Tensor:
    """Merge leading axes into one, also for empty batches, where -1 is ambiguous."""
    return x[None] if x.ndim == axes else x.flatten(0, -axes - 1)


class PointLayer(nn.Module):
    """Linear map, batch norm over all rows, and (leaky) ReLU."""

    def __init__(
        self,
        channels: int,
        width: int,
        slope: float = 0.0,  # of the ReLU for negative values
    ) -> None:
        super().__init__()
        self.slope = slope
        self.linear = nn.Linear(channels, width, bias=False)
        self.norm = nn.BatchNorm1d(width)

    def forward(
        self,
        x: Tensor,  # (..., channels)
        mask: Tensor | None = None,  # (...)
    ) -> Tensor:
        """Apply the layer, (..., width); masked rows are zero and not in the statistics."""
        return self.normalize(self.linear(x), mask)

    def normalize(
        self,
        y: Tensor,  # (..., width)
        mask: Tensor | None = None,  # (...)
    ) -> Tensor:
        """Apply batch norm and ReLU."""
        return self.rectify(self.standardize(y, mask))

    def standardize(
        self,
        y: Tensor,  # (..., width)
        mask: Tensor | None = None,  # (...)
    ) -> Tensor:
        """Apply batch norm to unmasked rows."""
        if mask is None:
            return self.norm(y.reshape(-1, y.shape[-1])).view(y.shape)
        there = self.norm(y[mask])
        return y.new_zeros(y.shape).masked_scatter(mask[..., None], there.to(y.dtype))

    def rectify(self, y: Tensor) -> Tensor:
        """Apply the ReLU, to the result of ``standardize`` or to a maximum of such rows."""
        return F.leaky_relu(y, self.slope)

    def largest(
        self,
        x: Tensor,  # (B, P, channels)
        mask: Tensor | None = None,  # (B, P) with at least one point
    ) -> Tensor:
        """Apply the layer and return the maximum over points, (B, width)."""
        # The ReLU of the largest is the largest ReLU.
        return self.rectify(masked_max(self.standardize(self.linear(x), mask), mask))


class PointHead(nn.Module):
    """Classification head: layers with dropout and a linear map."""

    def __init__(
        self,
        channels: int,
        hidden: Sequence[int],  # channels of the layers
        num_classes: int,
        dropout: float,
        slope: float = 0.0,  # of the ReLU for negative values
    ) -> None:
        super().__init__()
        widths = [channels, *hidden]
        self.hidden = nn.ModuleList(PointLayer(a, b, slope) for a, b in pairwise(widths))
        self.dropout = nn.Dropout(dropout)
        self.last = nn.Linear(widths[-1], num_classes)

    def forward(
        self,
        x: Tensor,  # (B, channels)
    ) -> Tensor:
        """Return logits, (B, num_classes)."""
        for layer in self.hidden:
            x = self.dropout(layer(x))
        return self.last(x)


def masked_max(
    x: Tensor,  # (B, P, C)
    mask: Tensor | None = None,  # (B, P) with at least one point
) -> Tensor:
    """Return the maximum over points per channel, (B, C)."""
    return largest(x if mask is None else x.masked_fill(~mask[..., None], -torch.inf), 1)


def largest(x: Tensor, dim: int) -> Tensor:
    """Return the maximum along an axis, whose gradient goes to one element."""
    # `amax` computes no index and is faster, but equal elements share its derivative.
    transformed = not torch.compiler.is_compiling() and (
        transforms_active() or forward_mode_active()
    )
    return x.max(dim).values if torch.is_grad_enabled() or transformed else x.amax(dim)


def group_points(
    positions: Tensor,  # (B, P, dim), centered
    count: int,  # number of groups; fewer if there are fewer points
    neighbors: int,  # points per group; fewer if there are fewer points
    mask: Tensor | None = None,  # (B, P)
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Sample centers and return them (B, Q), their neighbors (B, Q, k) and their mask (B, Q)."""
    few = farthest_point_sampling(positions, min(count, positions.shape[1]), mask)
    near = nearest_neighbors(positions, neighbors, mask, centers=gather_rows(positions, few))
    if mask is not None:  # where there are fewer points, the last are padding
        order = torch.arange(few.shape[1], device=mask.device)
        mask = order < mask.sum(1, keepdim=True)
    return few, near, mask


def group_features(
    layers: nn.ModuleList,  # of `PointLayer`
    y: Tensor,  # (B, Q, k, C)
    mask: Tensor | None = None,  # (B, Q)
    x: Tensor | None = None,  # (B, P, D), features of points, behind those of `y`
    near: Tensor | None = None,  # (B, Q, k), indices of the members
) -> Tensor:
    """Apply layers to group members and take the maximum per group, (B, Q, width)."""
    members = None if mask is None else mask[:, :, None].expand(y.shape[:3])
    *others, last = cast("Sequence[PointLayer]", layers)
    if x is not None and near is not None:
        if others and _is_plain(others[0]):
            first, *others = others
            y = first.normalize(_joined_product(first.linear, y, x, near), members)
        else:
            y = torch.cat([y, gather_rows(x, near)], -1)
    for layer in others:
        y = layer(y, members)
    # As in `PointLayer.largest`.
    return last.rectify(largest(last.standardize(last.linear(y), members), 2))


def _is_plain(layer: PointLayer) -> bool:
    """Return whether the weight and bias are all that a call reads of the linear map."""
    return runs_own_code(layer, PointLayer) and runs_own_code(layer.linear, nn.Linear)


def _joined_product(linear: nn.Linear, y: Tensor, x: Tensor, near: Tensor) -> Tensor:
    """Map ``y`` and the rows ``near`` of ``x`` behind it, with a product per point."""
    # There are fewer points than members.
    own, shared = linear.weight.tensor_split([y.shape[-1]], dim=1)
    return F.linear(y, own, linear.bias) + gather_rows(F.linear(x, shared), near)
