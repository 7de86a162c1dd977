"""Gradients of the batch normalisation of a rectified sum."""

from __future__ import annotations

import torch
from torch import Tensor

from equigeo.ops.runtime.declare import declare, like
from equigeo.ops.runtime.each_of_a_batch import each_of_a_batch

SCHEMA = (
    "relu_batch_norm_backward(Tensor grad_out, Tensor x, Tensor? added, Tensor weight, "
    "Tensor bias, float eps, bool rectify) -> (Tensor, Tensor, Tensor)"
)

FEATURES = ("grad_out", "x", "added", "weight", "bias")


def relu_batch_norm_backward_reference(
    grad_out: Tensor,
    x: Tensor,
    added: Tensor | None,
    weight: Tensor,
    bias: Tensor,
    eps: float,
    rectify: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the gradients of :func:`~equigeo.ops.norms.relu_batch_norm.relu_batch_norm`."""
    total = x if added is None else x + added
    # The statistics are recomputed because they depend on the features, which allows second-order
    # gradients.
    v = total.relu()
    rows = max(1, v.shape[0])
    mean = v.sum(dim=0) / rows
    centred = v - mean
    inverse = (centred.square().sum(dim=0) / rows + eps).rsqrt()
    normed = centred * inverse
    if rectify:
        grad_out = torch.where(normed * weight + bias <= 0, 0, grad_out)
    to_bias, to_weight = grad_out.sum(dim=0), (grad_out * normed).sum(dim=0)
    # gv = w / sqrt(var v + eps) (g - <g> - vhat <g vhat>), with vhat the normalised sum.
    to_v = (weight * inverse) * (grad_out - to_bias / rows - normed * (to_weight / rows))
    return torch.where(total <= 0, 0, to_v), to_weight, to_bias


relu_batch_norm_backward = declare(
    SCHEMA,
    reference=relu_batch_norm_backward_reference,
    fake=like("x", "weight", "bias"),
    backward=FEATURES,
    batch=each_of_a_batch("relu_batch_norm_backward"),
)
