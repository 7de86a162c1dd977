"""Gradient of the segmented attention, an op of its own so that it runs in two passes."""

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
    grad_out: Tensor,
    grad_attention: Tensor | None,
    values: Tensor,
    attention: Tensor,
    *graph: Tensor,
) -> tuple[Tensor, Tensor]:
    r"""Gradients of :func:`segment_attention` with respect to values and logits.

    With :math:`g` and :math:`a` the gradients that arrive at its two results,

    .. math::

        d_e = a_e + g_{t(e)} \cdot v_{s(e)}, \quad
        \bar l_e = \alpha_e \Bigl(d_e - \sum_{e' \to t(e)} \alpha_{e'} d_{e'}\Bigr), \quad
        \bar v_s = \sum_{s \to e} \alpha_e\, g_{t(e)}

    Parameters
    ----------
    grad_out : Tensor, (targets, heads, channels)
        Gradient of the averages.
    grad_attention : Tensor, (edges, heads), optional
        Gradient of the weights; none stands for zero.
    values : Tensor, (sources, heads, channels)
        As given to the forward op.
    attention : Tensor, (edges, heads)
        As returned by it.
    *graph : Tensor, int64
        ``source, ptr, target, back_order, back_ptr``, as given to the forward op.

    Returns
    -------
    grad_values : Tensor, (sources, heads, channels)
        Gradient of the values.
    grad_logits : Tensor, (edges, heads)
        Gradient of the logits.
    """
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
    r"""Second order, in ops that are differentiable themselves.

    With :math:`p`, :math:`q` the gradients arriving at :math:`\bar v`, :math:`\bar l` and
    :math:`r_e = \alpha_e (q_e - \sum \alpha q)`: the sum of :math:`q \bar l` depends on
    :math:`d` through :math:`r` and on :math:`\alpha` through two covariances.
    """
    source, target, ptr = graph["source"], graph["target"], graph["ptr"]
    each = torch.arange(len(source) + 1, device=source.device)
    by_target = ptr, target, each
    by_source = graph["back_ptr"], source, each
    order = each[:-1]

    arriving, sent, wanted = grad_out[target], values[source], to_values[source]
    slope = (arriving * sent).sum(-1)
    if grad_attention is not None:
        slope = slope + grad_attention
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
    """Sum edge rows into segments in a fixed order, so that bits do not depend on threads."""
    flat = gather_sum(x.flatten(1), order, ptr, segment, each)
    return flat.view(len(ptr) - 1, *x.shape[1:])


_op = declare(
    SCHEMA,
    reference=segment_attention_backward_reference,
    fake=like("values", "attention"),
    backward=_backward,
    batch=channels(["grad_out", "grad_attention", "values", "attention"]),
)
