"""Gradients of the convolution by attention."""

from __future__ import annotations

from torch import Tensor

from equigeo.ops.runtime.declare import declare, like
from equigeo.ops.runtime.each_of_a_batch import each_of_a_batch
from equigeo.ops.segments.segment_attention_backward import segment_attention_backward

SCHEMA = (
    "attention_conv_backward(Tensor grad_out, Tensor? grad_attention, Tensor x, Tensor attention, "
    "Tensor weight, Tensor? self_weight, Tensor source, Tensor ptr, Tensor target, "
    "Tensor back_order, Tensor back_ptr) -> (Tensor, Tensor, Tensor, Tensor)"
)

FEATURES = ("grad_out", "grad_attention", "x", "attention", "weight", "self_weight")


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
    """Return the gradients of :func:`~equigeo.ops.segments.attention_conv.attention_conv`."""
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
        # An empty slice of another result, so that it is differentiable too.
        return to_x, to_logits, to_weight, to_weight[:0, :0]
    return to_x + grad_out @ self_weight, to_logits, to_weight, grad_out.mT @ x


attention_conv_backward = declare(
    SCHEMA,
    reference=attention_conv_backward_reference,
    fake=like("x", "attention", "weight", "self_weight"),
    backward=FEATURES,
    batch=each_of_a_batch("attention_conv_backward"),
)
