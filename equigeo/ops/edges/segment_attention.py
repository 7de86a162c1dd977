"""Softmax over the edges of each target node, the average of source rows it weighs, and a map."""

from __future__ import annotations

import torch
from torch import Tensor

from equigeo._core.checks import (
    check_device,
    check_dtype,
    check_edge_lists,
    check_features,
    check_index,
)
from equigeo._core.tensors import computes_in_float32
from equigeo.ops.edges.gather_sum import gather_sum_op
from equigeo.ops.runtime.batching import channels
from equigeo.ops.runtime.declare import declare, like
from equigeo.ops.runtime.forward_rules import each_of_a_batch
from equigeo.ops.runtime.tape import Gradients

LISTS = ("source", "ptr", "target", "back_order", "back_ptr")
"""Edges sorted by target, and their order by source."""

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
    graph = dict(zip(LISTS, (source, ptr, target, back_order, back_ptr), strict=True))
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
    targets, heads = ptr.shape[0] - 1, logits.shape[1]
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


def _backward(
    grad_out: Tensor | None = None,
    grad_attention: Tensor | None = None,
    *,
    values: Tensor,
    attention: Tensor,
    **graph: Tensor,
) -> Gradients:
    # The weights are seldom part of a loss: without their gradient there is less to compute.
    if grad_out is None:
        grad_out = values.new_zeros(graph["ptr"].shape[0] - 1, *values.shape[1:])
    to_values, to_logits = segment_attention_backward_op(
        grad_out, grad_attention, values, attention, *graph.values()
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
    mean = slope.new_zeros(ptr.shape[0] - 1, slope.shape[1]).index_add(0, target, attention * slope)
    grad_logits = attention * (slope - mean[target])
    grad_values = torch.zeros_like(values, memory_format=torch.contiguous_format)
    grad_values = grad_values.index_add(0, source, attention[:, :, None] * arriving)
    return grad_values, grad_logits


def _segment_sum(x: Tensor, order: Tensor, ptr: Tensor, segment: Tensor, each: Tensor) -> Tensor:
    """Sum edge rows into segments in a fixed order, so that results do not depend on threads."""
    flat: Tensor = gather_sum_op(x.flatten(1), order, ptr, segment, each)
    return flat.view(ptr.shape[0] - 1, *x.shape[1:])


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
    each = torch.arange(source.shape[0] + 1, device=source.device)
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
    rest=LISTS,
    batch=channels(["values", "logits"]),
    results=("out", "attention"),
)

CONV_SCHEMA = (
    "attention_conv(Tensor x, Tensor logits, Tensor weight, Tensor? self_weight, Tensor source, "
    "Tensor ptr, Tensor target, Tensor back_order, Tensor back_ptr) -> (Tensor, Tensor)"
)


@computes_in_float32
def attention_conv(  # noqa: PLR0913 - one parameter for each tensor
    x: Tensor, logits: Tensor, weight: Tensor, self_weight: Tensor | None,
    source: Tensor, ptr: Tensor, target: Tensor, back_order: Tensor, back_ptr: Tensor,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    r"""Convolve a graph by attention, without storing messages (Velickovic et al., ICLR 2018).

    .. math::

        \alpha_{eh} = \operatorname{softmax}_{e \to t}(l_{eh}), \qquad
        y_{th} = W_h \sum_{e \to t} \alpha_{eh}\, x_{s(e)} + V_h\, x_t

    with the matrices of all heads concatenated in ``weight`` and ``self_weight``. On the CPU,
    neither :math:`W x` nor a message is ever in memory; on other devices it is
    :func:`~equigeo.ops.segment_attention` of PyTorch's matrix product. Returns y, of shape
    (targets, heads * channels_out), zero without terms, and the weights, (edges, heads).

    Parameters
    ----------
    x : Tensor, (sources, channels)
        Features.
    logits : Tensor, (edges, heads)
        One score per edge and head.
    weight : Tensor, (heads * channels_out, channels)
        As that of :class:`torch.nn.Linear`.
    self_weight : Tensor, (heads * channels_out, channels), optional
        Applied to the features of the target itself; there are then as many targets as sources.
    source, ptr, target, back_order, back_ptr : Tensor, int64
        Edges sorted by target, as in :func:`~equigeo.ops.segment_attention`.

    Examples
    --------
    >>> x, doubled = torch.tensor([[2.0], [4.0]]), torch.tensor([[2.0]])
    >>> source, target, ptr = torch.tensor([0, 1]), torch.tensor([0, 0]), torch.tensor([0, 2, 2])
    >>> graph = source, ptr, target, torch.tensor([0, 1]), torch.tensor([0, 1, 2])
    >>> out, attention = attention_conv(x, torch.zeros(2, 1), doubled, -doubled, *graph)
    >>> out.flatten().tolist(), attention.flatten().tolist()
    ([2.0, -8.0], [0.5, 0.5])
    """
    graph = dict(zip(LISTS, (source, ptr, target, back_order, back_ptr), strict=True))
    features = check_operands(x, logits, weight, self_weight, ptr)
    check_edge_lists("x", x, graph, (len(logits), "the rows of logits"))
    check_device(**features, **graph)
    return attention_conv_op(x, logits, weight, self_weight, *graph.values())


def check_operands(
    x: Tensor, logits: Tensor, weight: Tensor, self_weight: Tensor | None, ptr: Tensor
) -> dict[str, Tensor]:
    """Validate shapes and dtypes of all but the edges and return the features by name."""
    check_features("x", x, ("sources", "channels"))
    check_features("logits", logits, ("edges", "heads"))
    check_features("weight", weight, ("heads * channels_out", "channels"))
    heads = logits.shape[1]
    if weight.shape[1] != x.shape[1] or (weight.shape[0] % heads if heads else weight.shape[0]):
        raise ValueError(
            f"weight must have equally many rows for each of {heads} heads and {x.shape[1]} "
            f"columns, as x, got shape {tuple(weight.shape)}"
        )
    features = {"x": x, "logits": logits, "weight": weight}
    check_index("ptr", ptr, at_least=1)
    if self_weight is not None:
        features["self_weight"] = self_weight
        if self_weight.shape != weight.shape:
            raise ValueError(
                f"self_weight must have the shape of weight, {tuple(weight.shape)}, "
                f"got {tuple(self_weight.shape)}"
            )
        if ptr.shape[0] != x.shape[0] + 1:
            raise ValueError(
                "self_weight needs as many targets as sources, "
                f"got {ptr.shape[0] - 1} and {x.shape[0]}"
            )
    for name, tensor in features.items():
        check_dtype(name, tensor, "x", x)
    return features


def attention_conv_reference(
    x: Tensor, logits: Tensor, weight: Tensor, self_weight: Tensor | None, **graph: Tensor
) -> tuple[Tensor, Tensor]:
    """Reference implementation of :func:`attention_conv`: the map first, then the average."""
    heads = logits.shape[1]
    width = weight.shape[0] // max(1, heads)
    values = (x @ weight.mT).view(x.shape[0], heads, width)
    lists = [graph[name] for name in LISTS]
    out, attention = segment_attention_op(values, logits, *lists)
    out = out.flatten(1)
    if self_weight is not None:
        out = out + x @ self_weight.mT
    return out, attention


def _conv_fake(x: Tensor, logits: Tensor, weight: Tensor, ptr: Tensor) -> tuple[Tensor, Tensor]:
    return x.new_empty(ptr.shape[0] - 1, weight.shape[0]), logits.new_empty(logits.shape)


def _conv_backward(
    grad_out: Tensor | None = None, grad_attention: Tensor | None = None,
    *, x: Tensor, attention: Tensor, weight: Tensor, self_weight: Tensor | None, **graph: Tensor,
) -> Gradients:  # fmt: skip
    if grad_out is None:  # of a loss of the weights of attention alone
        grad_out = x.new_zeros(graph["ptr"].shape[0] - 1, weight.shape[0])
    to_x, to_logits, to_weight, to_self = attention_conv_backward(
        grad_out, grad_attention, x, attention, weight, self_weight, *graph.values()
    )
    return {
        "x": to_x,
        "logits": to_logits,
        "weight": to_weight,
        "self_weight": None if self_weight is None else to_self,
    }


CONV_BACKWARD_SCHEMA = (
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
    """Return the gradients of :func:`attention_conv`."""
    heads = attention.shape[1]
    by_head = heads, weight.shape[0] // max(1, heads)
    values = (x @ weight.mT).unflatten(1, by_head)
    lists = [graph[name] for name in LISTS]
    to_values, to_logits = segment_attention_backward_op(
        grad_out.unflatten(1, by_head), grad_attention, values, attention, *lists
    )
    to_values = to_values.flatten(1)
    to_x, to_weight = to_values @ weight, to_values.mT @ x
    if self_weight is None:
        # An empty slice of another result, so that it is differentiable too.
        return to_x, to_logits, to_weight, to_weight[:0, :0]
    return to_x + grad_out @ self_weight, to_logits, to_weight, grad_out.mT @ x


attention_conv_backward = declare(
    CONV_BACKWARD_SCHEMA,
    reference=attention_conv_backward_reference,
    fake=like("x", "attention", "weight", "self_weight"),
    backward=FEATURES,
    batch=each_of_a_batch("attention_conv_backward"),
)

attention_conv_op = declare(
    CONV_SCHEMA,
    reference=attention_conv_reference,
    fake=_conv_fake,
    backward=_conv_backward,
    rest=LISTS,
    batch=each_of_a_batch("attention_conv"),
    results=("out", "attention"),
)
