"""Statistics of BatchNorm layers, estimated with the weights that are evaluated and saved."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from equigeo.nn.evaluating import evaluating


def has_statistics(model: nn.Module) -> bool:
    """Return whether a model has BatchNorm layers whose running statistics are trained.

    Examples
    --------
    >>> has_statistics(nn.Sequential(nn.BatchNorm1d(2))), has_statistics(nn.LayerNorm(2))
    (True, False)
    """
    return bool(_tracking(model))


@torch.no_grad()
def update_bn(
    model: nn.Module, batches: Iterable[Any], run: Callable[[nn.Module, Any], object]
) -> None:
    """Replace the running statistics of BatchNorm layers by averages over batches.

    Running statistics follow weights that change: after a few steps they are mostly those that the
    layer began with, and with a high learning rate those of other weights. Here every batch counts
    alike and meets the same weights. As :func:`torch.optim.swa_utils.update_bn`, but all other
    layers are in evaluation mode: what dropout would add, a model that is evaluated never meets.

    Parameters
    ----------
    model : torch.nn.Module
        Changed in place; modes and momenta are put back. A layer that no batch reaches keeps its
        statistics, and so does a frozen one: without a parameter that requires a gradient, or in
        evaluation mode where the model is in training mode. A model without other BatchNorm layers
        is not run.
    batches : iterable
        Each of samples of all kinds: statistics of batches of one class each would lack what
        distinguishes the classes.
    run : callable
        Runs the model, its first argument, on a batch.

    References
    ----------
    Wu and Johnson, "Rethinking 'Batch' in BatchNorm", 2021, section 3 (PreciseBN).

    Examples
    --------
    >>> norm = nn.BatchNorm1d(1)
    >>> update_bn(norm, torch.tensor([[[1.0], [3.0]], [[2.0], [6.0]]]), nn.Module.__call__)
    >>> norm.running_mean.item(), norm.running_var.item()
    (3.0, 5.0)
    """
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
    """Return whether the caller keeps a layer, and so its statistics, out of training."""
    parameters = list(norm.parameters())
    if parameters and not any(parameter.requires_grad for parameter in parameters):
        return True
    return model.training and not norm.training


def _buffers(norm: _BatchNorm) -> dict[str, Any]:
    return {name: buffer.clone() for name, buffer in norm.named_buffers(recurse=False)}
