"""Normalization of node features."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, Literal

import torch
from torch import Tensor, nn

from equigeo._core.checks import check_shape
from equigeo._core.tensors import HALF, forward_mode_active, transforms_active
from equigeo.nn.module import normalize_in_place
from equigeo.ops import runs_compiled
from equigeo.ops.geometry.relu_batch_norm import relu_batch_norm_op

NormName = Literal["batch", "group", "none"]


def node_norm(name: NormName, channels: int, groups: int | None = None) -> nn.Module:
    """Build a norm of (nodes, channels) by name; groups have eight channels by default."""
    if name == "batch":
        return nn.BatchNorm1d(channels)
    if name == "group":
        # Groups of two channels, as in the narrow layers of PD-MeshNet, leave only a sign: two
        # centered numbers of unit variance are +1 and -1.
        return nn.GroupNorm(groups or max(1, channels // 8), channels)
    if name == "none":
        return nn.Identity()
    raise ValueError(f"norm must be 'batch', 'group' or 'none', got {name!r}")


def rectified_sum(x: Tensor, added: Tensor | None, overwrite: bool = False) -> Tensor:
    """Return ReLU(x + added), in the memory of x if it may be overwritten."""
    if added is None:
        return x.relu_() if overwrite else x.relu()
    return (x.add_(added) if overwrite else x + added).relu_()


class RectifiedBatchNorm(nn.BatchNorm1d):
    """Compute BN(ReLU(x + added)), optionally rectified, with the parameters of ``BatchNorm1d``."""

    def __init__(self, num_features: int, *, rectify: bool = False, **options: Any) -> None:
        super().__init__(num_features, **options)
        self.rectify = rectify

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, rectify={self.rectify}"

    def forward(
        self,
        x: Tensor,  # (rows, num_features)
        added: Tensor | None = None,  # (rows, num_features)
        *,
        overwrite: bool = False,  # x
    ) -> Tensor:
        """Rectify the sum, normalize it and optionally rectify it again."""
        if self._is_fused(x, added):
            return self._fused(x, added)
        if self.weight is not None and self.weight.dtype in HALF:
            # Under autocast ops return float32, which PyTorch's batch norm refuses beside these.
            x = x.to(self.weight.dtype)
            added = None if added is None else added.to(self.weight.dtype)
        # In place: no other code refers to the sum or to the result of the norm.
        y = rectified_sum(x, added, overwrite)
        if not (overwrite and normalize_in_place(self, y)):
            y = super().forward(y)
        return y.relu_() if self.rectify else y

    def _is_fused(self, x: Tensor, added: Tensor | None) -> bool:
        """Return whether ``equigeo.ops.relu_batch_norm`` computes this call."""
        weight = self.weight
        of_a_batch = self.training or (self.running_mean is None and self.running_var is None)
        return (
            of_a_batch
            and weight is not None
            and self.bias is not None
            and x.ndim == 2
            and x.shape[0] > 1
            and x.shape[1] == self.num_features
            and x.dtype == weight.dtype
            and x.dtype in (torch.float32, torch.float64)
            and (added is None or (added.shape == x.shape and added.dtype == x.dtype))
            and self.eps > 0
            and runs_compiled("relu_batch_norm", x.device)
            # Transforms need PyTorch's own update of the running statistics.
            and (
                torch.compiler.is_compiling() or not (transforms_active() or forward_mode_active())
            )
        )

    def _fused(self, x: Tensor, added: Tensor | None) -> Tensor:
        y, mean, variance = relu_batch_norm_op(
            x, added, self.weight, self.bias, self.eps, self.rectify
        )
        if self.training and self.track_running_stats:  # as ``BatchNorm1d`` updates them
            factor, rows = self.momentum or 0.0, x.shape[0]
            if self.num_batches_tracked is not None:
                self.num_batches_tracked.add_(1)
                if self.momentum is None:  # a cumulative average
                    factor = 1.0 / float(self.num_batches_tracked)
            if self.running_mean is not None:
                self.running_mean.mul_(1 - factor).add_(mean, alpha=factor)
            if self.running_var is not None:  # that of a sample
                self.running_var.mul_(1 - factor).add_(variance, alpha=factor * rows / (rows - 1))
        return y


class Standardize(nn.Module):
    """Subtract a mean and divide by a deviation, both fitted once and stored as buffers."""

    mean: Tensor
    deviation: Tensor

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(channels))
        self.register_buffer("deviation", torch.ones(channels))

    @property
    def is_fitted(self) -> bool:
        """Whether mean or deviation differ from their initial values."""
        return bool((self.mean != 0).any() or (self.deviation != 1).any())

    def fit(
        self,
        features: Sequence[Tensor],  # each (nodes, channels)
    ) -> None:
        """Fit mean and sample deviation over all rows; warn about constant channels."""
        rows = torch.cat([x.detach() for x in features]).double() if features else None
        if rows is None or not len(rows) or rows.shape[1] != len(self.mean):
            shape = None if rows is None else tuple(rows.shape)
            raise ValueError(f"features must be (nodes, {len(self.mean)}), got {shape}")
        deviation = rows.std(dim=0) if len(rows) > 1 else torch.ones_like(self.mean).double()
        # PD-MeshNet refuses a deviation below 10 machine epsilons; here of the values themselves,
        # because that is what rounding leaves of a constant channel.
        largest = rows.abs().amax(dim=0)
        constant = deviation <= 10 * torch.finfo(self.mean.dtype).eps * largest
        if bool(constant.any()):
            channels = torch.nonzero(constant).flatten().tolist()
            warnings.warn(f"feature channels {channels} are constant", stacklevel=2)
        self.mean.copy_(rows.mean(dim=0))
        self.deviation.copy_(torch.where(constant, 1.0, deviation))

    def forward(
        self,
        x: Tensor,  # (nodes, channels)
    ) -> Tensor:
        """Standardize features in the dtype of the buffers."""
        check_shape(x, "x", ("nodes", len(self.mean)))
        return (x.to(self.mean.dtype) - self.mean) / self.deviation
