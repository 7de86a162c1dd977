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
from tests.ops.problems import Problem


def in_order(reference: Callable[..., Any]) -> Callable[..., Any]:
    """A reference that takes all arguments of its op by position, whatever it names."""
    schema = SCHEMAS[reference.__name__.removesuffix("_reference")]
    return by_position(reference, Signature.parse(schema).arguments)


@dataclass(frozen=True)
class Op:
    """An op, its judge, and how to make arguments: features first, then the fixed rest.

    Features and tables of the rest are given the dtype of the test; ``missing`` is the position of
    a feature that ``call`` leaves out, ``constants`` end the arguments of the overload. A body made
    of matrix products of a BLAS, which rounds as it likes by number of threads and alignment, is
    ``blas``. ``terms`` is the length of sums over the fixed rest.
    """

    name: str
    call: Callable[..., Any]
    reference: Callable[..., Any]
    features: Callable[[Problem, torch.dtype], list[Tensor]]
    rest: Callable[[EdgeIndex], list[Tensor]]
    label: str = ""
    missing: int | None = None
    blas: bool = False
    terms: int = 1
    constants: tuple[Any, ...] = ()

    @property
    def overload(self) -> Any:
        return getattr(torch.ops.equigeo, self.name).default

    def __str__(self) -> str:
        return self.label or self.name
