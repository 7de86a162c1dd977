"""Batch normalisation between two ReLUs, whose backward pass needs nothing but its input."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from equigeo.ops import relu_batch_norm, runs_compiled
from equigeo.ops.runtime.torch_internals import forward_mode_active, transforms_active


class RectifiedBatchNorm(nn.BatchNorm1d):
    r"""Apply :class:`torch.nn.BatchNorm1d` to a rectified sum.

    .. math:: y = \mathrm{BN}(\mathrm{ReLU}(x + a)), \quad\text{or}\quad \mathrm{ReLU}(y)

    Parameters, running statistics and their names are those of the batch norm. Where a kernel is
    loaded, training goes through :func:`equigeo.ops.relu_batch_norm`.

    Parameters
    ----------
    num_features : int
        Number of channels.
    rectify : bool
        Whether the result is rectified, too.
    **options
        As of :class:`torch.nn.BatchNorm1d`.

    Equivariance
    ------------
    Acts on invariant channels; commutes with permutations of rows.

    Examples
    --------
    >>> norm = RectifiedBatchNorm(1)
    >>> norm(torch.tensor([[-1.0], [1.0]])).sign().flatten().tolist()
    [-1.0, 1.0]
    >>> norm.running_mean.item()
    0.05000000074505806
    """

    def __init__(self, num_features: int, *, rectify: bool = False, **options: Any) -> None:
        super().__init__(num_features, **options)
        self.rectify = rectify

    def extra_repr(self) -> str:
        """Arguments of the batch norm, and whether results are rectified."""
        return f"{super().extra_repr()}, rectify={self.rectify}"

    def forward(self, x: Tensor, added: Tensor | None = None) -> Tensor:
        """Rectify the sum, normalise it, and maybe rectify it again.

        Parameters
        ----------
        x : Tensor, (rows, num_features)
            Features.
        added : Tensor, (rows, num_features), optional
            Added first.

        Returns
        -------
        Tensor, (rows, num_features)
            Results.

        Raises
        ------
        ValueError
            As of the batch norm: if there are other axes, or a single row in training mode.
        """
        if self._is_fused(x, added):
            return self._fused(x, added)
        # a sum, and what the norm made, are nobody else's
        y: Tensor = super().forward(x.relu() if added is None else (x + added).relu_())
        return y.relu_() if self.rectify else y

    def _is_fused(self, x: Tensor, added: Tensor | None) -> bool:
        """Whether this is what the op computes: statistics of a batch, of one dtype."""
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
            # running statistics are written to: what transforms do with that, PyTorch knows
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
        """Let running statistics follow, as those of the batch norm do."""
        factor = 0.0 if self.momentum is None else self.momentum
        if self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(1)
            if self.momentum is None:  # a cumulative average
                factor = 1.0 / float(self.num_batches_tracked)
        if self.running_mean is not None:
            self.running_mean.mul_(1 - factor).add_(mean, alpha=factor)
        if self.running_var is not None:  # that of a sample
            self.running_var.mul_(1 - factor).add_(variance, alpha=factor * rows / (rows - 1))
