"""Estimation of BatchNorm statistics for the evaluated and saved weights."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from equigeo.nn.evaluating import evaluating


def has_statistics(model: nn.Module) -> bool:
    """Return whether a model has BatchNorm layers with trained running statistics."""
    return bool(_tracking(model))


@torch.no_grad()
def update_bn(
    model: nn.Module,
    batches: Iterable[Any],  # each of samples of all classes
    run: Callable[[nn.Module, Any], object],  # runs the model, its first argument, on a batch
) -> None:
    """Replace the running statistics of BatchNorm layers by averages over batches."""
    # PreciseBN: Wu and Johnson, "Rethinking 'Batch' in BatchNorm", 2021, section 3. Unlike
    # `torch.optim.swa_utils.update_bn`, other layers are in evaluation mode, so without dropout.
    norms = _tracking(model)
    if not norms:
        return
    kept = [(norm, norm.momentum, _buffers(norm)) for norm in norms]
    with evaluating(model):
        try:
            for norm in norms:
                norm.reset_running_stats()
                norm.momentum = None  # a cumulative average
                norm.training = True
            for batch in batches:
                run(model, batch)
        finally:
            for norm, momentum, buffers in kept:
                norm.momentum = momentum
                if norm.num_batches_tracked == 0:
                    norm.load_state_dict(buffers, strict=False)


def _tracking(model: nn.Module) -> list[_BatchNorm]:
    return [
        module
        for module in model.modules()
        if isinstance(module, _BatchNorm)
        and module.running_mean is not None
        and not _is_frozen(module, model)
    ]


def _is_frozen(norm: _BatchNorm, model: nn.Module) -> bool:
    """Return whether a layer and its statistics are excluded from training."""
    parameters = list(norm.parameters())
    if parameters and not any(parameter.requires_grad for parameter in parameters):
        return True
    return model.training and not norm.training


def _buffers(norm: _BatchNorm) -> dict[str, Any]:
    return {name: buffer.clone() for name, buffer in norm.named_buffers(recurse=False)}
