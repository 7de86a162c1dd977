"""Rules of :func:`torch.vmap` for ops with independent problems: vmap over the reference."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from equigeo.ops.runtime.batching import BatchRule
from equigeo.ops.runtime.declare import reference_of


def each_of_a_batch(
    name: str,  # op with a reference composed of ops that can be batched
) -> BatchRule:
    """Return the vmap rule of an op with batched matrices: vmap over its reference."""

    def batch(_: Any, size: int, arguments: dict[str, Any], dims: Mapping[str, Any]) -> Any:
        batched = torch.vmap(reference_of(name), in_dims=tuple(dims[n] for n in arguments))
        found = batched(*arguments.values())
        return found, (0,) * len(found) if isinstance(found, tuple) else 0

    return batch
