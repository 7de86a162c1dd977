"""Softmax over the edges of each target, the average of sources it weighs, and a linear map."""

from __future__ import annotations

from torch import Tensor

from equigeo._core.checks import (
    check_device,
    check_dtype,
    check_edge_lists,
    check_features,
    check_index,
)
from equigeo._core.tensors import computes_in_float32
from equigeo.ops.edges.segment_attention import segment_attention_backward_op, segment_attention_op
from equigeo.ops.runtime.declare import declare, like
from equigeo.ops.runtime.forward_rules import each_of_a_batch
from equigeo.ops.runtime.tape import Gradients

SCHEMA = (
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

    with the matrices of all heads concatenated in ``weight`` and ``self_weight``. On the CPU a
    kernel averages sources before it applies the matrix, a few targets at a time, so that neither
    :math:`W x` nor a message is ever in memory. On other devices it is
    :func:`~equigeo.ops.segment_attention` of PyTorch's matrix product.

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

    Returns
    -------
    out : Tensor, (targets, heads * channels_out)
        Results; without incoming edges the term of the target itself, or zero.
    attention : Tensor, (edges, heads)
        The weights; they sum to one per target and head.

    Examples
    --------
    >>> import torch
    >>> x, doubled = torch.tensor([[2.0], [4.0]]), torch.tensor([[2.0]])
    >>> source, target, ptr = torch.tensor([0, 1]), torch.tensor([0, 0]), torch.tensor([0, 2, 2])
    >>> graph = source, ptr, target, torch.tensor([0, 1]), torch.tensor([0, 1, 2])
    >>> out, attention = attention_conv(x, torch.zeros(2, 1), doubled, -doubled, *graph)
    >>> out.flatten().tolist(), attention.flatten().tolist()
    ([2.0, -8.0], [0.5, 0.5])
    """
    graph = {"source": source, "ptr": ptr, "target": target, "back_order": back_order}
    graph["back_ptr"] = back_ptr
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


def _fake(x: Tensor, logits: Tensor, weight: Tensor, ptr: Tensor) -> tuple[Tensor, Tensor]:
    return x.new_empty(ptr.shape[0] - 1, weight.shape[0]), logits.new_empty(logits.shape)


def _backward(  # noqa: PLR0913 - one parameter for each tensor
    grad_out: Tensor | None = None, grad_attention: Tensor | None = None,
    *, x: Tensor, attention: Tensor, weight: Tensor, self_weight: Tensor | None,
    source: Tensor, ptr: Tensor, target: Tensor, back_order: Tensor, back_ptr: Tensor,
) -> Gradients:  # fmt: skip
    if grad_out is None:  # of a loss of the weights of attention alone
        grad_out = x.new_zeros(ptr.shape[0] - 1, weight.shape[0])
    operands = grad_out, grad_attention, x, attention, weight, self_weight
    to_x, to_logits, to_weight, to_self = attention_conv_backward(
        *operands, source, ptr, target, back_order, back_ptr
    )
    return {
        "x": to_x,
        "logits": to_logits,
        "weight": to_weight,
        "self_weight": None if self_weight is None else to_self,
    }


LISTS = ("source", "ptr", "target", "back_order", "back_ptr")

BACKWARD_SCHEMA = (
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
    """Return the gradients of :func:`~equigeo.ops.edges.attention_conv.attention_conv`."""
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
    BACKWARD_SCHEMA,
    reference=attention_conv_backward_reference,
    fake=like("x", "attention", "weight", "self_weight"),
    backward=FEATURES,
    batch=each_of_a_batch("attention_conv_backward"),
)

attention_conv_op = declare(
    SCHEMA,
    reference=attention_conv_reference,
    fake=_fake,
    backward=_backward,
    batch=each_of_a_batch("attention_conv"),
    results=("out", "attention"),
)
