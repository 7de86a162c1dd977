"""Batch normalisation between two ReLUs that keeps only its input for the backward pass."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from equigeo.ops import relu_batch_norm, runs_compiled
from equigeo.ops.runtime.storage import HALF
from equigeo.ops.runtime.torch_internals import forward_mode_active, transforms_active


class RectifiedBatchNorm(nn.BatchNorm1d):
    """Compute BN(ReLU(x + added)), optionally rectified, with the parameters of ``BatchNorm1d``."""

    def __init__(self, num_features: int, *, rectify: bool = False, **options: Any) -> None:
        super().__init__(num_features, **options)
        self.rectify = rectify

    def extra_repr(self) -> str:
        """Return the arguments of the batch norm and whether results are rectified."""
        return f"{super().extra_repr()}, rectify={self.rectify}"

    def forward(
        self,
        x: Tensor,  # (rows, num_features)
        added: Tensor | None = None,  # (rows, num_features)
    ) -> Tensor:
        """Rectify the sum, normalise it and optionally rectify it again."""
        if self._is_fused(x, added):
            return self._fused(x, added)
        if self.weight is not None and self.weight.dtype in HALF:
            # Under autocast ops return float32, which PyTorch's batch norm refuses beside these.
            x = x.to(self.weight.dtype)
            added = None if added is None else added.to(self.weight.dtype)
        # In place: no other code refers to the sum or to the result of the norm.
        y: Tensor = super().forward(x.relu() if added is None else (x + added).relu_())
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
        y, mean, variance = relu_batch_norm(
            x, added, self.weight, self.bias, self.eps, self.rectify
        )
        if self.training and self.track_running_stats:
            self._count(mean, variance, x.shape[0])
        return y

    def _count(self, mean: Tensor, variance: Tensor, rows: int) -> None:
        """Update the running statistics as ``BatchNorm1d`` does."""
        factor = 0.0 if self.momentum is None else self.momentum
        if self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(1)
            if self.momentum is None:  # a cumulative average
                factor = 1.0 / float(self.num_batches_tracked)
        if self.running_mean is not None:
            self.running_mean.mul_(1 - factor).add_(mean, alpha=factor)
        if self.running_var is not None:  # that of a sample
            self.running_var.mul_(1 - factor).add_(variance, alpha=factor * rows / (rows - 1))
