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
    """Factors and functions of a network of matrix layers."""

    def __init__(
        self,
        # factor of each matrix, including the scale of the preceding function
        factors: Sequence[float],
        functions: Sequence[Callable[[Tensor], Tensor] | None],  # function after each matrix
        scale: float,  # factor of the result
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
    """An ``e3nn.nn.FullyConnectedNet`` with one matrix product and one function per layer."""

    # e3nn scales the result of a function by two factors per row; here they scale the next matrix.
    # The layers keep their parameters but are not called. If a layer or its activation is replaced
    # or has hooks, the original forward runs.
    runs_on = "torch, with fewer steps"

    hs: Any
    accelerated: RadialBody

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
        layers = _layers(self)
        if len(layers) != len(self.accelerated.factors):
            return self.original(input)
        weights = [layer.weight for layer in layers]
        if not fit(input, *weights):
            return self.original(input)
        out: Tensor = self.accelerated(input, weights)
        return out

    # A Sequential is made of its children; what computes is none of the layers.
    def named_children(self) -> Iterator[tuple[str, nn.Module]]:
        """Iterate over the layers."""
        return ((name, child) for name, child in super().named_children() if name != BODY)

    def __delitem__(self, index: Any) -> None:
        self.uninstall()  # a Sequential would renumber all children
        del self[index]

    def __iter__(self) -> Iterator[Any]:
        return iter(_layers(self))

    def __len__(self) -> int:
        return len(_layers(self))

    def example(self, rows: int = 3) -> tuple[Any, ...]:
        """Return random edge features."""
        return (random(rows, self.hs[0], like=next(self.parameters())),)


def _layers(module: nn.Module) -> list[Any]:
    return [layer for name, layer in module._modules.items() if name != BODY]


def _complaint(layer: Any) -> str:
    """Return why a layer must be called: it computes something else, or has hooks."""
    kind = type(layer)
    if (module_of(kind), kind.__name__) != LAYER:
        return f"has a layer of class {kind.__name__}"
    if "forward" in vars(layer):
        return "has a layer with a forward of its own, set on the instance"
    if has_hooks(layer):
        return "has a layer with hooks, which would not be called"
    return ""
