"""Constant lists of positions, which follow a module to its device."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, final

from torch import Tensor, nn

from equigeo.nn.tables import at_default_device, buffer_of, made_anew, values_on_cpu


@final
class IndexTables(nn.Module):
    """Integer constants that come back from the meta device, and are never saved.

    The counterpart of :class:`Tables` for positions.
    """

    def __init__(self, **tables: Tensor) -> None:
        super().__init__()
        for name, table in tables.items():
            self.register_buffer(name, at_default_device(table), persistent=False)
        self._exact = {name: values_on_cpu(table) for name, table in tables.items()}

    def __getitem__(self, name: str) -> Tensor:
        """Return a table, on the module's device; not to be written to."""
        table: Tensor = buffer_of(self, name)
        return table

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Any:
        before = dict(self._buffers)
        super()._apply(fn, recurse)
        # to_empty() leaves garbage behind, which nothing saved would overwrite.
        for name, new in made_anew(self, before).items():
            self._buffers[name] = self._exact[name].to(new.device)
        return self
