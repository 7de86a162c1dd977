"""Every public layer and function with one argument wrong: one sentence about that argument."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

# What a caller never wrote, and would have to look up in the source.
INTERNALS = re.compile(
    r"mat1|mat2|aten|torch\.Size|has no attribute|out of range in self|not subscriptable|einsum|"
    r"expand\(|size of tensor|unexpected keyword|has no len|unpack|__|equigeo/|\n"
)


def refused(
    message: str,
    call: Callable[..., Any],
    *arguments: Any,
    error: type[Exception] | tuple[type[Exception], ...] = ValueError,
    **named: Any,
) -> str:
    """Assert that a call raises an error that matches a pattern, and return its message."""
    with pytest.raises(error, match=message) as caught:
        call(*arguments, **named)
    text = str(caught.value)
    del caught  # its traceback refers to this frame: the cycle would keep what the call opened
    return text


@dataclass(frozen=True)
class Wrong:
    """A call with one argument replaced."""

    label: str
    call: Callable[[], Any]
    names: tuple[str, ...]

    def check(self) -> None:
        """See that it is refused in a sentence that names the argument."""
        with pytest.raises((TypeError, ValueError)) as error:
            self.call()
        text = str(error.value)
        assert not INTERNALS.search(text), text
        assert len(text) <= 400, text
        assert any(re.search(rf"\b{name}\b", text) for name in self.names), text


def wrong_calls(
    call: Callable[..., Any],
    good: dict[str, Any],
    *,
    names: dict[str, str] | None = None,
    fine: frozenset[str] | set[str] = frozenset(),
) -> Iterator[Wrong]:
    """Replace each argument by what it must not be.

    ``names`` are what messages call an argument, where not by its name; ``fine`` are labels,
    ``argument: kind``, of what is no mistake for this call.
    """
    for name, value in good.items():
        called = (names or {}).get(name, name).split("|")
        for kind, bad in replacements(value):
            label = f"{name}: {kind}"
            if label not in fine:
                given = good | {name: bad}
                yield Wrong(label, lambda given=given: call(**given), (*called,))


def replacements(value: Any) -> Iterator[tuple[str, Any]]:
    """Values of another kind, rank, width, dtype and device."""
    yield "None", None
    yield "text", "text"
    if not isinstance(value, Tensor):
        yield "tensor", torch.zeros(3, 3)
        return
    yield "list", value.tolist()
    yield "no numbers", np.array(["a"])
    yield "number", torch.tensor(1).to(value)
    yield "one axis more", value[None]
    yield "complex", value.to(torch.complex64)
    if value.is_floating_point():
        yield "integers", value.long()
        yield "other dtype", value.double() if value.dtype == torch.float32 else value.float()
    else:
        yield "fractions", value.float()
    if value.ndim > 1:
        yield "wider", torch.cat([value, value[..., :1]], -1)
    yield "longer", torch.cat([value, value[:1]])
    yield "meta", value.to("meta")
