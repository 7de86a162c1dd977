"""Errors for sparse tensors, which no op supports."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NoReturn

import torch
from torch import Tensor

OTHERS = tuple(
    f"{kind}{device}" for kind in ("Sparse", "SparseCsr") for device in ("CPU", "CUDA", "Meta")
)
"""Dispatch keys of tensors that are not strided."""

_LIBRARY = torch.library.Library("equigeo", "IMPL")


def strided_only(names: Iterable[str]) -> None:
    """Register an error for sparse tensors in the named ops, before a reference fails on them."""
    for name in names:
        for key in OTHERS:
            _LIBRARY.impl(name, _refuse, key)


def _refuse(*arguments: Any) -> NoReturn:
    tensors = (x for x in arguments if isinstance(x, Tensor))
    layout = next(x.layout for x in tensors if x.layout != torch.strided)
    raise TypeError(f"tensors must be strided, got one of layout {layout}")
