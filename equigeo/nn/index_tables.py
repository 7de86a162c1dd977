"""Constant lists of positions, which follow a module to its device."""

from __future__ import annotations

from typing import final

from torch import Tensor

from equigeo.nn.tables import Constants, buffer_of


@final
class IndexTables(Constants):
    """Integer constants that come back from the meta device, and are never saved.

    The counterpart of :class:`Tables` for positions.
    """

    def __init__(self, **tables: Tensor) -> None:
        super().__init__(tables)

    def __getitem__(self, name: str) -> Tensor:
        """Return a table, on the module's device; not to be written to."""
        table: Tensor = buffer_of(self, name)
        return table
