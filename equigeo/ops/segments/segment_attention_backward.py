"""Gradient of the segmented attention, in two passes."""

from __future__ import annotations

import torch
from torch import Tensor

from equigeo.ops.runtime.batching import channels
from equigeo.ops.runtime.declare import Gradients, declare, like
from equigeo.ops.segments.gather_sum import gather_sum

SCHEMA = (
    "segment_attention_backward(Tensor grad_out, Tensor? grad_attention, Tensor values, "
    "Tensor attention, Tensor source, Tensor ptr, Tensor target, Tensor back_order, "
    "Tensor back_ptr) -> (Tensor, Tensor)"
)


def segment_attention_backward(
    grad_out: Tensor,  # (targets, heads, channels)
    grad_attention: Tensor | None,  # (edges, heads)
    values: Tensor,  # (sources, heads, channels)
    attention: Tensor,  # (edges, heads)
    *graph: Tensor,  # source, ptr, target, back_order, back_ptr
) -> tuple[Tensor, Tensor]:  # as values, as attention
    """Return the gradients of :func:`segment_attention` with respect to values and logits."""
    # With g and a the gradients of both results: d_e = a_e + g_t(e) . v_s(e), the gradient of
    # logits is alpha_e (d_e - sum of alpha d over the edges of the target), and that of values the
    # sum of alpha_e g_t(e).
    return _op(grad_out, grad_attention, values, attention, *graph)


def segment_attention_backward_reference(
    grad_out: Tensor,
    grad_attention: Tensor | None,
    values: Tensor,
    attention: Tensor,
    source: Tensor,
    ptr: Tensor,
    target: Tensor,
    **_: Tensor,
) -> tuple[Tensor, Tensor]:
    """Reference implementation of :func:`segment_attention_backward`."""
    arriving = grad_out[target]
    slope = (arriving * values[source]).sum(-1)
    if grad_attention is not None:
        slope = slope + grad_attention
    mean = slope.new_zeros(len(ptr) - 1, slope.shape[1]).index_add(0, target, attention * slope)
    grad_logits = attention * (slope - mean[target])
    grad_values = torch.zeros_like(values, memory_format=torch.contiguous_format)
    grad_values = grad_values.index_add(0, source, attention[:, :, None] * arriving)
    return grad_values, grad_logits


def _backward(
    to_values: Tensor,
    to_logits: Tensor,
    *,
    grad_out: Tensor,
    grad_attention: Tensor | None,
    values: Tensor,
    attention: Tensor,
    **graph: Tensor,
) -> Gradients:
    """Second order, in ops that are themselves differentiable."""
    source, target, ptr = graph["source"], graph["target"], graph["ptr"]
    each = torch.arange(len(source) + 1, device=source.device)
    by_target = ptr, target, each
    by_source = graph["back_ptr"], source, each
    order = each[:-1]

    arriving, sent, wanted = grad_out[target], values[source], to_values[source]
    slope = (arriving * sent).sum(-1)
    if grad_attention is not None:
        slope = slope + grad_attention
    # With p, q the gradients of values and logits and r_e = alpha_e (q_e - sum alpha q): <q, logit
    # gradient> depends on d through r, and on alpha through two covariances.
    mean_slope = _segment_sum(attention * slope, order, *by_target)[target]
    mean_logits = _segment_sum(attention * to_logits, order, *by_target)[target]
    to_slope = attention * (to_logits - mean_logits)

    to_grad_out = to_slope[:, :, None] * sent + attention[:, :, None] * wanted
    to_attention = (
        to_logits * (slope - mean_slope) - mean_logits * slope + (wanted * arriving).sum(-1)
    )
    to_source = to_slope[:, :, None] * arriving
    return {
        "grad_out": _segment_sum(to_grad_out, order, *by_target),
        "grad_attention": None if grad_attention is None else to_slope,
        "values": _segment_sum(to_source, graph["back_order"], *by_source),
        "attention": to_attention,
    }


def _segment_sum(x: Tensor, order: Tensor, ptr: Tensor, segment: Tensor, each: Tensor) -> Tensor:
    """Sum edge rows into segments in a fixed order, so that results do not depend on threads."""
    flat = gather_sum(x.flatten(1), order, ptr, segment, each)
    return flat.view(len(ptr) - 1, *x.shape[1:])


_op = declare(
    SCHEMA,
    reference=segment_attention_backward_reference,
    fake=like("values", "attention"),
    backward=_backward,
    batch=channels(["grad_out", "grad_attention", "values", "attention"]),
)
