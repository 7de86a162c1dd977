"""Gradients of the convolution by attention, an op of its own so that nothing is stored twice."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from equigeo.ops.runtime.batching import BatchRule
from equigeo.ops.runtime.declare import declare, like, reference_of
from equigeo.ops.segments.segment_attention_backward import segment_attention_backward

SCHEMA = (
    "attention_conv_backward(Tensor grad_out, Tensor? grad_attention, Tensor x, Tensor attention, "
    "Tensor weight, Tensor? self_weight, Tensor source, Tensor ptr, Tensor target, "
    "Tensor back_order, Tensor back_ptr) -> (Tensor, Tensor, Tensor, Tensor)"
)

FEATURES = ("grad_out", "grad_attention", "x", "attention", "weight", "self_weight")


def each_of_a_batch(name: str) -> BatchRule:
    """Rule of an op whose matrices may differ within a batch: that of what its reference calls.

    Parameters
    ----------
    name : str
        Of the op, whose reference is made of what PyTorch and ops here can batch.

    Returns
    -------
    callable
        For :func:`equigeo.ops.runtime.declare.declare`.
    """

    def batch(_: Any, size: int, arguments: dict[str, Any], dims: Mapping[str, Any]) -> Any:
        batched = torch.vmap(reference_of(name), in_dims=tuple(dims[n] for n in arguments))
        found = batched(*arguments.values())
        return found, (0,) * len(found) if isinstance(found, tuple) else 0

    return batch


def attention_conv_backward_reference(
    grad_out: Tensor,
    grad_attention: Tensor | None,
    *,
    x: Tensor,
    attention: Tensor,
    weight: Tensor,
    self_weight: Tensor | None,
    **graph: Tensor,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    r"""Gradients of :func:`~equigeo.ops.segments.attention_conv.attention_conv`.

    Those of the averages of :math:`W x` and of its logits, and through the matrix on to the
    features; the fourth is empty, (0, 0), without a matrix for the targets themselves.
    """
    heads = attention.shape[1]
    by_head = heads, weight.shape[0] // max(1, heads)
    values = (x @ weight.mT).unflatten(1, by_head)
    lists = [graph[name] for name in ("source", "ptr", "target", "back_order", "back_ptr")]
    to_values, to_logits = segment_attention_backward(
        grad_out.unflatten(1, by_head), grad_attention, values, attention, *lists
    )
    to_values = to_values.flatten(1)
    to_x, to_weight = to_values @ weight, to_values.mT @ x
    if self_weight is None:
        # Nothing of another result, so that it is differentiated like one.
        return to_x, to_logits, to_weight, to_weight[:0, :0]
    return to_x + grad_out @ self_weight, to_logits, to_weight, grad_out.mT @ x


attention_conv_backward = declare(
    SCHEMA,
    reference=attention_conv_backward_reference,
    fake=like("x", "attention", "weight", "self_weight"),
    backward=FEATURES,
    batch=each_of_a_batch("attention_conv_backward"),
)
