"""Invariant network that computes the weights of a product from distances."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from equigeo.nn.normalized_activation import NormalizedActivation
from equigeo.nn.state import SavedOptions
from equigeo.ops.runtime.checks import check_tensor


class RadialMLP(nn.Module):
    r"""Layers of weights and activations without biases, as ``e3nn.nn.FullyConnectedNet``.

    Each layer multiplies by :math:`W / \sqrt{h\,\mathrm{var}}` with :math:`W` drawn from N(0, 1)
    and h inputs. Parameters are named as in e3nn (``layer0.weight``, ...).

    Parameters
    ----------
    sizes : sequence of int
        Input, hidden and output sizes, at least two.
    act : callable, optional
        Between layers; scaled by :class:`NormalizedActivation` (default: linear network).
    variance_in, variance_out : float
        Second moments of the inputs and of the outputs.
    out_act : bool
        Whether the activation also follows the last layer.

    Examples
    --------
    >>> mlp = RadialMLP([8, 64, 64, 20], torch.nn.functional.silu)
    >>> mlp(torch.ones(5, 8)).shape, list(mlp.state_dict())
    (torch.Size([5, 20]), ['layer0.weight', 'layer1.weight', 'layer2.weight'])
    """

    def __init__(
        self,
        sizes: Sequence[int],
        act: Callable[[Tensor], Tensor] | None = None,
        variance_in: float = 1.0,
        variance_out: float = 1.0,
        out_act: bool = False,
    ) -> None:
        super().__init__()
        if len(sizes) < 2 or min(sizes) < 0:
            raise ValueError(f"sizes must be two or more numbers >= 0, got {list(sizes)}")
        if not (variance_in > 0 and variance_out > 0):
            raise ValueError(f"variances must be positive, got {variance_in} and {variance_out}")
        self.sizes = tuple(sizes)
        if act is not None and not isinstance(act, NormalizedActivation):
            act = NormalizedActivation(act)
        for i, (size_in, size_out) in enumerate(pairwise(sizes)):
            last = i == len(sizes) - 2
            layer = _Layer(
                size_in,
                size_out,
                act if out_act or not last else None,
                variance_in if i == 0 else 1.0,
                variance_out if last else 1.0,
            )
            self.add_module(f"layer{i}", layer)

    def forward(self, x: Tensor) -> Tensor:
        """Map invariant features ``(..., sizes[0])`` to weights ``(..., sizes[-1])``."""
        check_tensor("x", x)
        if x.shape[-1:] != (self.sizes[0],):
            raise ValueError(f"x must be (..., {self.sizes[0]}), got {tuple(x.shape)}")
        for layer in self.children():
            x = layer(x)
        return x


class _Layer(SavedOptions):
    """A scaled matrix with an optional activation."""

    def __init__(
        self,
        size_in: int,
        size_out: int,
        act: Callable[[Tensor], Tensor] | None,
        variance_in: float,
        variance_out: float,
    ) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(size_in, size_out))
        self.act = act
        # A sum of size_in products with weights from N(0, 1) has variance size_in * variance_in.
        self._scale_in = (max(size_in, 1) * variance_in) ** -0.5
        self._scale_out = variance_out**0.5

    def forward(self, x: Tensor) -> Tensor:
        if self.act is None:
            return x @ (self.weight * (self._scale_in * self._scale_out))
        out: Tensor = self.act(x @ (self.weight * self._scale_in)) * self._scale_out
        return out

    def _saved_options(self) -> Mapping[str, Any]:
        scales = [self._scale_in, self._scale_out]
        return {"scales": scales, "activation": self.act is not None}

    def extra_repr(self) -> str:
        return " -> ".join(str(size) for size in self.weight.shape)
