"""Data that other processes receive as bytes.

On its own because every source of graphs needs it, whatever its labels.
"""

from __future__ import annotations

import pickle
from dataclasses import fields
from typing import Any

from equigeo.training.labelled_source import LabelledSource


class CopiedAsBytes(LabelledSource):
    """A source, as a frozen dataclass, whose copies in other processes share no memory with it.

    Sharing every tensor of every graph through a file descriptor, as torch.multiprocessing does,
    runs into the limit on open files.
    """

    def __getstate__(self) -> dict[str, Any]:
        """Give a state without shared memory."""
        return {"bytes": pickle.dumps([getattr(self, field.name) for field in fields(self)])}  # type: ignore[arg-type]

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore a copy of one's own making (never a file)."""
        values = pickle.loads(state["bytes"])
        for field, value in zip(fields(self), values, strict=True):  # type: ignore[arg-type]
            object.__setattr__(self, field.name, value)
