"""Gradient checkpointing: what a block computes is computed again instead of kept."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint


def recompute(module: nn.Module, function: Callable[..., Any], *inputs: Any) -> Any:
    """Call a function of a module, keeping its inputs for the backward pass and nothing between.

    The backward pass calls it again. What batch norms have counted by then is left as it is, so
    that running statistics are those of one call.

    Parameters
    ----------
    module : torch.nn.Module
        Holds every batch norm that the function applies.
    function : callable
        Takes the inputs; equal inputs give equal bits.
    *inputs
        Tensors and anything else.

    Returns
    -------
    Any
        What the function returned.

    References
    ----------
    Chen et al., "Training Deep Nets with Sublinear Memory Cost", 2016.

    Examples
    --------
    >>> import torch
    >>> norm = nn.BatchNorm1d(1)
    >>> x = torch.tensor([[1.0], [3.0]], requires_grad=True)
    >>> recompute(norm, norm, x).sum().backward()
    >>> norm.num_batches_tracked.item(), norm.running_mean.item()
    (1, 0.20000000298023224)
    """

    def contexts() -> tuple[AbstractContextManager[None], AbstractContextManager[None]]:
        return nullcontext(), _UnchangedStatistics(module)

    return checkpoint(function, *inputs, use_reentrant=False, context_fn=contexts)


class _UnchangedStatistics(AbstractContextManager[None]):
    """Let batch norms count in copies, and drop these: the call has been counted before.

    Entered again by every backward pass, that of second gradients among them.
    """

    def __init__(self, module: nn.Module) -> None:
        self._norms = [
            m for m in module.modules() if isinstance(m, nn.modules.batchnorm._BatchNorm)
        ]
        self._kept: list[tuple[nn.Module, dict[str, Tensor]]] = []

    def __enter__(self) -> None:
        # The copies stand in for the buffers instead of being copied back: autograd may hold the
        # buffers, and would refuse a backward pass if one were written to.
        self._kept = [(m, dict(m.named_buffers(recurse=False))) for m in self._norms if m.training]
        for norm, kept in self._kept:
            for name, buffer in kept.items():
                setattr(norm, name, buffer.clone())

    def __exit__(self, *error: object) -> None:
        for norm, kept in self._kept:
            for name, buffer in kept.items():
                setattr(norm, name, buffer)
