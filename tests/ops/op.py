"""What the op table says of one op."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from equigeo.graphs import EdgeIndex
from equigeo.ops.runtime.declare import SCHEMAS
from equigeo.ops.runtime.signature import Signature, by_position
from equigeo.ops.runtime.storage import computed_in
from tests.ops.problems import Problem


def in_order(reference: Callable[..., Any]) -> Callable[..., Any]:
    """A reference that takes all arguments of its op by position, whatever it names."""
    schema = SCHEMAS[reference.__name__.removesuffix("_reference")]
    return by_position(reference, Signature.parse(schema).arguments)


@dataclass(frozen=True)
class Op:
    """An op, its judge, and how to make arguments: features first, then the fixed rest.

    Features are given the dtype of the test, and the rest that in which it is computed, unless that
    is ``stored`` like features; ``missing`` are positions of features that ``call`` leaves out,
    ``constants`` end the arguments of the overload. A body made of matrix products of a BLAS, which
    rounds as it likes by number of threads and alignment, is ``blas``. ``terms`` is the length of
    sums over the fixed rest.
    """

    name: str
    call: Callable[..., Any]
    reference: Callable[..., Any]
    features: Callable[[Problem, torch.dtype], list[Tensor]]
    rest: Callable[[EdgeIndex], list[Tensor]]
    label: str = ""
    missing: tuple[int, ...] = ()
    blas: bool = False
    terms: int = 1
    constants: tuple[Any, ...] = ()
    stored: bool = False

    def tables(self, rest: list[Tensor], dtype: torch.dtype) -> list[Tensor]:
        """The fixed rest for features of a dtype."""
        dtype = dtype if self.stored else computed_in(dtype)
        return [x.to(dtype) if x.is_floating_point() else x for x in rest]

    @property
    def overload(self) -> Any:
        return getattr(torch.ops.equigeo, self.name).default

    def __str__(self) -> str:
        return self.label or self.name


def reads_bfloat16(op: Op) -> bool:
    """Return whether a kernel of the op reads bfloat16; others compute in single precision."""
    return op.name.startswith(("block", "channelwise"))
