"""How ops take one more axis whose problems share nothing: by what their references are made of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from equigeo.ops.runtime.batching import BatchRule
from equigeo.ops.runtime.declare import reference_of


def each_of_a_batch(name: str) -> BatchRule:
    """Rule of an op whose matrices may differ within a batch: that of what its reference calls.

    Parameters
    ----------
    name : str
        Of the op, whose reference is made of what PyTorch and ops here can batch.

    Returns
    -------
    callable
        For :func:`equigeo.ops.runtime.declare.declare`.
    """

    def batch(_: Any, size: int, arguments: dict[str, Any], dims: Mapping[str, Any]) -> Any:
        batched = torch.vmap(reference_of(name), in_dims=tuple(dims[n] for n in arguments))
        found = batched(*arguments.values())
        return found, (0,) * len(found) if isinstance(found, tuple) else 0

    return batch
