"""``e3nn.nn.FullyConnectedNet`` with its factors inside of the weights."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from torch import Tensor, nn

from equigeo.interop.accelerated.accelerated import BODY, Accelerated, has_hooks, module_of
from equigeo.interop.accelerated.accelerated_gate import activation
from equigeo.interop.accelerated.arguments import fit, random

LAYER = ("e3nn.nn._fc", "_Layer")


class RadialBody(nn.Module):
    """Factors and functions of a network whose layers multiply by a matrix.

    Parameters
    ----------
    factors : sequence of float
        What each matrix is multiplied by, the scales of the function before it included.
    functions : sequence of callable or None
        What follows each matrix.
    scale : float
        What the result is multiplied by.
    """

    def __init__(
        self,
        factors: Sequence[float],
        functions: Sequence[Callable[[Tensor], Tensor] | None],
        scale: float,
    ) -> None:
        super().__init__()
        self.factors, self.functions, self.scale = tuple(factors), tuple(functions), scale

    def forward(self, x: Tensor, weights: Sequence[Tensor]) -> Tensor:
        """Evaluate the network with these matrices, (..., sizes[0]) to (..., sizes[-1])."""
        for weight, factor, function in zip(weights, self.factors, self.functions, strict=True):
            x = x @ (weight * factor)
            x = x if function is None else function(x)
        return x if self.scale == 1.0 else x * self.scale


class AcceleratedRadialNetwork(Accelerated):
    """An ``e3nn.nn.FullyConnectedNet`` in two steps a layer, a matrix product and a function.

    e3nn multiplies what leaves a function by two factors, row by row; here they are in the matrix
    that follows. The layers stay, with their parameters, but are not called; once one of them, or
    its activation, is replaced, as adapters of low rank do, or watched, the network computes as
    before.
    """

    runs_on = "torch, with fewer steps"

    hs: Any

    @classmethod
    def body_of(cls, module: Any) -> nn.Module:
        """Read factors and functions; see :meth:`Accelerated.body_of`."""
        factors, functions, scale = [], [], 1.0
        for layer in _layers(module):
            complaint = _complaint(layer)
            if complaint:
                raise ValueError(complaint)
            factor = scale * float(layer.h_in * layer.var_in) ** -0.5
            scale = float(layer.var_out) ** 0.5
            if layer.act is None:
                factor, scale, function = factor * scale, 1.0, None
            else:
                normalized = activation(layer.act)
                function, scale = normalized.function, scale * normalized.scale
            factors.append(factor)
            functions.append(function)
        return RadialBody(factors, functions, scale)

    def forward(self, input: Tensor) -> Tensor:
        """Evaluate as ``e3nn.nn.FullyConnectedNet`` does."""
        if not self.is_as_read():
            return self.original(input)
        weights = [layer.weight for layer in _layers(self)]
        if not fit(input, *weights):
            return self.original(input)
        out: Tensor = self.accelerated(input, weights)
        return out

    # A Sequential is made of its children; what computes is none of the layers.
    def __iter__(self) -> Iterator[Any]:
        return iter(_layers(self))

    def __len__(self) -> int:
        return len(_layers(self))

    def example(self, rows: int = 3) -> tuple[Any, ...]:
        """Make the numbers that describe an edge."""
        return (random(rows, self.hs[0], like=next(self.parameters())),)


def _layers(module: nn.Module) -> list[Any]:
    return [layer for name, layer in module._modules.items() if name != BODY]


def _complaint(layer: Any) -> str:
    """Say why a layer has to be called: it computes something else, or is watched."""
    kind = type(layer)
    if (module_of(kind), kind.__name__) != LAYER:
        return f"has a layer of class {kind.__name__}"
    if "forward" in vars(layer):
        return "has a layer with a forward of its own, set on the instance"
    if has_hooks(layer):
        return "has a layer with hooks, which would not be called"
    return ""
