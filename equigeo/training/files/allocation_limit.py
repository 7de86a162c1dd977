"""Memory limit for building a model that a file describes."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from equigeo.training.files.weights import stored_numbers

# At least, and for each tensor of the weights: presets take up to 30 calls, half a millisecond.
_CALLS = (2_000, 100)
# At least, and for each number of the weights: grids that kernels are drawn on take 2.3 of it.
_NUMBERS = (1 << 22, 8)


class AllocationLimit(TorchDispatchMode):
    """Raise for tensors that are more or larger than the weights in a file justify."""

    def __init__(
        self,
        weights: Iterable[object],  # contents of the file; only stored tensor elements count
    ) -> None:
        super().__init__()
        # A description of a few bytes can request a network of any size; it is rejected before its
        # memory is allocated.
        held = [stored_numbers(weight) for weight in weights]
        self._held = sum(held)
        self._calls = _CALLS[0] + _CALLS[1] * len(held)
        self._numbers = _NUMBERS[0] + _NUMBERS[1] * self._held

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Count a call and its requested elements, then run it."""
        self._calls -= 1
        asked = _asked(func, args)
        self._numbers -= asked
        if self._calls < 0 or self._numbers < 0:
            raise ValueError(
                f"the model that is described is much larger than the {self._held} numbers of "
                "the weights"
            )
        result = func(*args, **(kwargs or {}))
        if not asked and isinstance(result, Tensor) and _is_new(func):
            self._numbers -= result.numel()
        return result


def _asked(func: Any, args: tuple[Any, ...]) -> int:
    """Return the number of elements that a factory call creates; 0 for other calls."""
    if any(isinstance(argument, Tensor) for argument in args):
        return 0
    if func._schema.name == "aten::eye":
        return math.prod((args * 2)[:2])
    size = args[0] if args else ()
    is_size = isinstance(size, (list, tuple)) and all(isinstance(n, int) for n in size)
    return math.prod(size) if is_size else 0


def _is_new(func: Any) -> bool:
    """Return whether a call allocates its result, which is neither a view nor its argument."""
    return not func.is_view and not func._schema.is_mutable
