"""Gradient checkpointing of blocks with batch norms."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint


def recompute(
    module: nn.Module,  # holds every batch norm that the function applies
    function: Callable[..., Any],  # deterministic
    *inputs: Any,
) -> Any:
    """Call a function and keep only its inputs; the backward pass calls it again."""

    def contexts() -> tuple[AbstractContextManager[None], AbstractContextManager[None]]:
        return nullcontext(), _UnchangedStatistics(module)

    # Chen et al., "Training Deep Nets with Sublinear Memory Cost", 2016. The second call leaves
    # running statistics unchanged, so that each step counts once.
    return checkpoint(function, *inputs, use_reentrant=False, context_fn=contexts)


class _UnchangedStatistics(AbstractContextManager[None]):
    """Restore the running statistics of batch norms on exit; entered once per backward pass."""

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
