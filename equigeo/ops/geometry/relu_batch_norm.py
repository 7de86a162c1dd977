"""Batch normalization of a rectified sum that keeps only the summands."""

from __future__ import annotations

import torch
from torch import Tensor

from equigeo._core.checks import check_device, check_dtype, check_features
from equigeo._core.tensors import computes_in_float32
from equigeo.ops.runtime.declare import declare, like
from equigeo.ops.runtime.forward_rules import each_of_a_batch
from equigeo.ops.runtime.tape import Gradients

SCHEMA = (
    "relu_batch_norm(Tensor x, Tensor? added, Tensor weight, Tensor bias, float eps, bool rectify) "
    "-> (Tensor, Tensor, Tensor)"
)


@computes_in_float32
def relu_batch_norm(
    x: Tensor, added: Tensor | None, weight: Tensor, bias: Tensor, eps: float, rectify: bool
) -> tuple[Tensor, Tensor, Tensor]:
    r"""Apply ReLU to a sum, batch normalization, and optionally ReLU again.

    With :math:`v = \mathrm{ReLU}(x + a)` and mean and variance of every channel over all rows,

    .. math:: y = w\, \frac{v - \bar v}{\sqrt{\operatorname{var} v + \epsilon}} + b .

    Equals batch norms of PyTorch in training mode with the ReLUs around them; gradients keep ``x``
    and ``added`` alone. Returns y, mean and variance (channels,); the variance over the number of
    rows (biased), both without gradients, zero where there are no rows.

    Parameters
    ----------
    x : Tensor, (rows, channels)
        Features.
    added : Tensor, (rows, channels), optional
        Added to ``x``.
    weight, bias : Tensor, (channels,)
        Scale and shift.
    eps : float
        Added to the variance, positive.
    rectify : bool
        Whether negative results become zero.

    Examples
    --------
    >>> x = torch.tensor([[1.0], [3.0], [-5.0]])
    >>> one, zero = torch.ones(1), torch.zeros(1)
    >>> out, mean, variance = relu_batch_norm(x, None, one, zero, 1e-5, True)
    >>> mean.item(), out.flatten().sign().tolist()
    (1.3333333730697632, [0.0, 1.0, 0.0])
    """
    check_features("x", x, ("rows", "channels"))
    others = {"weight": weight, "bias": bias} | ({} if added is None else {"added": added})
    for name, tensor in others.items():
        expected = x.shape if name == "added" else x.shape[1:]
        check_dtype(name, tensor, "x", x)
        if tensor.shape != expected:
            shape = tuple(tensor.shape)
            raise ValueError(f"{name} must have shape {tuple(expected)} to fit x, got {shape}")
    if not eps > 0:
        raise ValueError(f"eps must be positive, got {eps}")
    check_device(x=x, **others)
    return relu_batch_norm_op(x, added, weight, bias, eps, rectify)


def relu_batch_norm_reference(
    x: Tensor, added: Tensor | None, weight: Tensor, bias: Tensor, eps: float, rectify: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """Reference implementation of :func:`relu_batch_norm`, differentiable by PyTorch alone."""
    v = (x if added is None else x + added).relu()
    mean = v.sum(dim=0) / max(1, v.shape[0])
    variance = (v - mean).square().sum(dim=0) / max(1, v.shape[0])
    out = (v - mean) * (weight * (variance + eps).rsqrt()) + bias
    # Statistics are results without gradients.
    return out.relu() if rectify else out, mean.detach(), variance.detach()


def _fake(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    return x.new_empty(x.shape), x.new_empty(x.shape[1:]), x.new_empty(x.shape[1:])


def _backward(
    grad: Tensor, *_: Tensor, x: Tensor, added: Tensor | None, weight: Tensor, bias: Tensor,
    eps: float, rectify: bool,
) -> Gradients:  # fmt: skip
    to_x, to_weight, to_bias = relu_batch_norm_backward(grad, x, added, weight, bias, eps, rectify)
    # both summands have the same
    to_added = None if added is None else to_x
    return {"x": to_x, "added": to_added, "weight": to_weight, "bias": to_bias}


BACKWARD_SCHEMA = (
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
    """Return the gradients of :func:`~equigeo.ops.geometry.relu_batch_norm.relu_batch_norm`."""
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
    # gv = w / sqrt(var v + eps) (g - <g> - vhat <g vhat>), with vhat the normalized sum.
    to_v = (weight * inverse) * (grad_out - to_bias / rows - normed * (to_weight / rows))
    return torch.where(total <= 0, 0, to_v), to_weight, to_bias


relu_batch_norm_backward = declare(
    BACKWARD_SCHEMA,
    reference=relu_batch_norm_backward_reference,
    fake=like("x", "weight", "bias"),
    backward=FEATURES,
    batch=each_of_a_batch("relu_batch_norm_backward"),
)

relu_batch_norm_op = declare(
    SCHEMA,
    reference=relu_batch_norm_reference,
    fake=_fake,
    backward=_backward,
    batch=each_of_a_batch("relu_batch_norm"),
    results=("out", "mean", "variance"),
    constant_results=("mean", "variance"),
)
