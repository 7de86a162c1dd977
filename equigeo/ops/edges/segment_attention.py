"""Softmax over the edges of each target node, and the average of source rows it weighs."""

from __future__ import annotations

import torch
from torch import Tensor

from equigeo._core.checks import check_device, check_dtype, check_edge_lists, check_features
from equigeo._core.tensors import computes_in_float32
from equigeo.ops.edges.gather_sum import gather_sum_op
from equigeo.ops.runtime.batching import channels
from equigeo.ops.runtime.declare import declare, like
from equigeo.ops.runtime.tape import Gradients

SCHEMA = (
    "segment_attention(Tensor values, Tensor logits, Tensor source, Tensor ptr, Tensor target, "
    "Tensor back_order, Tensor back_ptr) -> (Tensor, Tensor)"
)


@computes_in_float32
def segment_attention(
    values: Tensor,
    logits: Tensor,
    source: Tensor,
    ptr: Tensor,
    target: Tensor,
    back_order: Tensor,
    back_ptr: Tensor,
) -> tuple[Tensor, Tensor]:
    r"""Average source rows into targets, weighted by a softmax over each target's edges.

    .. math::

        \alpha_{eh} = \frac{\exp(l_{eh} - m_{th})}{\sum_{e' \to t} \exp(l_{e'h} - m_{th})},
        \qquad y_{th} = \sum_{e \to t} \alpha_{eh}\, v_{s(e) h}

    with :math:`m` the largest logit of the row. As in :func:`torch.softmax`, a logit of minus
    infinity has weight zero, and a row with no other logits is NaN.

    Parameters
    ----------
    values : Tensor, (sources, heads, channels)
        Rows of the sources.
    logits : Tensor, (edges, heads)
        One score per edge and head.
    source, target : Tensor, (edges,), int64
        End points, sorted by ``target``.
    ptr : Tensor, (targets + 1,), int64
        Edges ``ptr[t] .. ptr[t + 1]`` point to ``t``.
    back_order : Tensor, (edges,), int64
        Positions of the edges, grouped by source; the gradient is summed in this order.
    back_ptr : Tensor, (sources + 1,), int64
        Offsets of the groups of ``back_order``.

    Returns
    -------
    out : Tensor, (targets, heads, channels)
        Averages; zero for targets without incoming edges.
    attention : Tensor, (edges, heads)
        The weights; they sum to one per target and head.

    Examples
    --------
    >>> import torch
    >>> values = torch.tensor([[[2.0]], [[4.0]]])
    >>> source, target, ptr = torch.tensor([0, 1]), torch.tensor([0, 0]), torch.tensor([0, 2, 2])
    >>> graph = source, ptr, target, torch.tensor([0, 1]), torch.tensor([0, 1, 2])
    >>> out, attention = segment_attention(values, torch.zeros(2, 1), *graph)
    >>> out.flatten().tolist(), attention.flatten().tolist()
    ([3.0, 0.0], [0.5, 0.5])
    """
    check_features("values", values, ("sources", "heads", "channels"))
    check_dtype("logits", logits, "values", values)
    if logits.ndim != 2 or logits.shape[1] != values.shape[1]:
        raise ValueError(
            f"logits must be (edges, heads) with the {values.shape[1]} heads of values, "
            f"got shape {tuple(logits.shape)}"
        )
    graph = {"source": source, "ptr": ptr, "target": target, "back_order": back_order}
    graph["back_ptr"] = back_ptr
    check_edge_lists("values", values, graph, (len(logits), "the rows of logits"))
    check_device(values=values, logits=logits, **graph)
    return segment_attention_op(values, logits, *graph.values())


def segment_attention_reference(
    values: Tensor,
    logits: Tensor,
    source: Tensor,
    ptr: Tensor,
    target: Tensor,
    back_order: Tensor,
    back_ptr: Tensor,
) -> tuple[Tensor, Tensor]:
    """Reference implementation of :func:`segment_attention`, differentiable by PyTorch alone."""
    targets, heads = len(ptr) - 1, logits.shape[1]
    row = target[:, None].expand(-1, heads)
    largest = logits.detach().new_zeros(targets, heads)
    largest = largest.scatter_reduce(0, row, logits.detach(), "amax", include_self=False)
    weights = (logits - largest[target]).exp()
    total = weights.new_zeros(targets, heads).index_add(0, target, weights)
    attention = weights / total[target]
    messages = attention[:, :, None] * values[source]
    out = values.new_zeros(targets, *values.shape[1:]).index_add(0, target, messages)
    return out, attention


def _fake(values: Tensor, logits: Tensor, ptr: Tensor) -> tuple[Tensor, Tensor]:
    out = values.new_empty(ptr.shape[0] - 1, values.shape[1], values.shape[2])
    return out, logits.new_empty(logits.shape)


def _backward(  # noqa: PLR0913 - one parameter for each tensor
    grad_out: Tensor | None = None,
    grad_attention: Tensor | None = None,
    *,
    values: Tensor,
    attention: Tensor,
    source: Tensor,
    ptr: Tensor,
    target: Tensor,
    back_order: Tensor,
    back_ptr: Tensor,
) -> Gradients:
    # The weights are seldom part of a loss: without their gradient there is less to compute.
    if grad_out is None:
        grad_out = values.new_zeros(ptr.shape[0] - 1, values.shape[1], values.shape[2])
    to_values, to_logits = segment_attention_backward_op(
        grad_out, grad_attention, values, attention, source, ptr, target, back_order, back_ptr
    )
    return {"values": to_values, "logits": to_logits}


BACKWARD_SCHEMA = (
    "segment_attention_backward(Tensor grad_out, Tensor? grad_attention, Tensor values, "
    "Tensor attention, Tensor source, Tensor ptr, Tensor target, Tensor back_order, "
    "Tensor back_ptr) -> (Tensor, Tensor)"
)


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
    """Return the gradients of :func:`segment_attention` with respect to values and logits."""
    # With g and a the gradients of both results: d_e = a_e + g_t(e) . v_s(e), the gradient of
    # logits is alpha_e (d_e - sum of alpha d over the edges of the target), and that of values the
    # sum of alpha_e g_t(e).
    arriving = grad_out[target]
    slope = (arriving * values[source]).sum(-1)
    if grad_attention is not None:
        slope = slope + grad_attention
    mean = slope.new_zeros(len(ptr) - 1, slope.shape[1]).index_add(0, target, attention * slope)
    grad_logits = attention * (slope - mean[target])
    grad_values = torch.zeros_like(values, memory_format=torch.contiguous_format)
    grad_values = grad_values.index_add(0, source, attention[:, :, None] * arriving)
    return grad_values, grad_logits


def _segment_sum(x: Tensor, order: Tensor, ptr: Tensor, segment: Tensor, each: Tensor) -> Tensor:
    """Sum edge rows into segments in a fixed order, so that results do not depend on threads."""
    flat: Tensor = gather_sum_op(x.flatten(1), order, ptr, segment, each)
    return flat.view(len(ptr) - 1, *x.shape[1:])


def _double_backward(
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


segment_attention_backward_op = declare(
    BACKWARD_SCHEMA,
    reference=segment_attention_backward_reference,
    fake=like("values", "attention"),
    backward=_double_backward,
    batch=channels(["grad_out", "grad_attention", "values", "attention"]),
)

segment_attention_op = declare(
    SCHEMA,
    reference=segment_attention_reference,
    fake=_fake,
    backward=_backward,
    batch=channels(["values", "logits"]),
    results=("out", "attention"),
)
