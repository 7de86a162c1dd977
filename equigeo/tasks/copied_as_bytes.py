"""Pickling of dataclasses as bytes, without shared memory."""

from __future__ import annotations

import pickle
from dataclasses import fields
from typing import Any

# torch.multiprocessing shares every tensor through a file descriptor, and the tensors of all graphs
# exceed the limit on open files.


def state_as_bytes(source: Any) -> dict[str, Any]:
    """Return the state of a dataclass without shared memory: its ``__getstate__``."""
    return {"bytes": pickle.dumps([getattr(source, field.name) for field in fields(source)])}


def restore_from_bytes(source: Any, state: dict[str, Any]) -> None:
    """Restore a copy made by this process, never a file: its ``__setstate__``."""
    values = pickle.loads(state["bytes"])
    for field, value in zip(fields(source), values, strict=True):
        object.__setattr__(source, field.name, value)
