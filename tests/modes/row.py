"""What the mode matrix says of one layer or op."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

from equigeo.groups import GroupSamples

Call = Callable[..., Any]
compared = [0]
"""How many elements the columns have compared; a cell that compares none checks nothing."""
_MOVED: dict[tuple[int, torch.device], tuple[Any, Any]] = {}  # no copies while a graph is captured


def assert_close(found: Any, want: Any, **bounds: Any) -> None:
    """Compare as PyTorch does, and count the elements."""
    torch.testing.assert_close(found, want, **bounds)
    count(want)


def count(values: Any) -> None:
    """Count the elements of tensors that a column has checked."""
    compared[0] += sum(x.numel() for x in tree_leaves(values) if isinstance(x, Tensor))


class Bound(nn.Module):
    """A layer as a function of its differentiable inputs alone."""

    def __init__(self, layer: nn.Module, call: Call) -> None:
        super().__init__()
        self.layer = layer
        self.call = call

    def forward(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        """All results that are differentiable."""
        results = self.call(self.layer, *inputs)
        results = results if isinstance(results, tuple) else (results,)
        return tuple(x for x in results if isinstance(x, Tensor) and x.is_floating_point())


def _apply(layer: nn.Module, *inputs: Tensor) -> Any:
    return layer(*inputs)


@dataclass(frozen=True)
class Row:
    """A layer, an op or a function, and a small problem for it.

    Parameters
    ----------
    name : str
        As a user imports it, and what tells it from other rows of the same thing.
    make : callable
        The layer, in float64 and with parameters that are not all zero.
    inputs : callable
        Its differentiable inputs, in float64.
    call : callable
        Called as ``call(layer, *inputs)``; by default with nothing else.
    covers : str
        Public name or op; by default the first word of the name.
    rows : bool
        Whether the first axis of all inputs counts problems of which there may be none.
    kinks : bool
        Whether it is linear in pieces too small for finite differences of gradients, as is
        interpolation between pixels that are not where samples are.
    """

    name: str
    make: Callable[[], nn.Module]
    inputs: Callable[[], tuple[Tensor, ...]]
    call: Call = _apply
    covers: str = ""
    rows: bool = True
    kinks: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "covers", self.covers or self.name.split()[0])

    @property
    def is_function(self) -> bool:
        """Whether it is a function or an op, which has no state."""
        return self.covers.rpartition(".")[2].islower()

    def bound(self) -> Bound:
        """The layer with everything but its differentiable inputs fixed."""
        torch.manual_seed(0)
        layer = self.make().double().eval()
        generator = torch.Generator().manual_seed(1)
        with torch.no_grad():
            for parameter in layer.parameters():  # zeros would hide errors
                noise = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
                parameter.add_(0.1 * noise)
        return Bound(layer, self.call)

    def __str__(self) -> str:
        return self.name


def randn(*shapes: tuple[int, ...], seed: int = 0) -> Callable[[], tuple[Tensor, ...]]:
    """Inputs of some shapes."""

    def inputs() -> tuple[Tensor, ...]:
        generator = torch.Generator().manual_seed(seed)
        return tuple(torch.randn(s, generator=generator, dtype=torch.float64) for s in shapes)

    return inputs


def beside(fixed: Any, x: Tensor) -> Any:
    """A graph or samples on the device of a tensor; themselves if they are there."""
    if not isinstance(x, Tensor) or x.device.type == "cpu":  # what is no tensor is to be refused
        return fixed
    key = id(fixed), x.device
    if key not in _MOVED:
        there = fixed.to(device=x.device) if isinstance(fixed, GroupSamples) else fixed.to(x.device)
        if torch.compiler.is_compiling():
            return there
        _MOVED[key] = there, fixed  # and its name stays taken
    return _MOVED[key][0]
