"""Constant lists of positions, which follow a module to its device."""

from __future__ import annotations

from typing import final

from torch import Tensor

from equigeo.nn.tables import Constants, buffer_of


@final
class IndexTables(Constants):
    """Integer constants that are restored from the meta device and never saved."""

    def __init__(self, **tables: Tensor) -> None:
        super().__init__(tables)

    def __getitem__(self, name: str) -> Tensor:
        """Return a table on the device of the module; do not modify it."""
        table: Tensor = buffer_of(self, name)
        return table
