"""Constant tables of a module, outside of its state."""

from __future__ import annotations

from abc import ABC
from collections.abc import Callable, Mapping
from typing import Any, final

import torch
from torch import Tensor, nn
from torch.compiler import is_compiling


class Constants(nn.Module, ABC):
    """Constant buffers outside of the state, restored after moves to the meta device."""

    def __init__(
        self,
        tables: Mapping[str, Tensor],  # exact values, kept on the CPU
        dtype: torch.dtype | None = None,  # dtype of the buffers, by default that of the tables
    ) -> None:
        super().__init__()
        for name, table in tables.items():
            self.register_buffer(name, at_default_device(table).to(dtype), persistent=False)
        self._exact = {name: x if x.is_meta else x.cpu() for name, x in tables.items()}

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Any:
        before = dict(self._buffers)
        names = {id(buffer): name for name, buffer in before.items()}

        def moved(x: Tensor) -> Tensor:
            try:
                return fn(x)
            except NotImplementedError:  # tensors on the meta device have no values
                name = names.get(id(x))
                if name is None or not x.is_meta:
                    raise
                return fn(self._remade(name, torch.device("cpu"), x.dtype))

        super()._apply(moved, recurse)
        # to_empty() allocates uninitialized memory.
        for name, new in self._buffers.items():
            if type(new) is Tensor and new is not before[name] and not new.is_meta:
                self._buffers[name] = self._remade(name, new.device, new.dtype)
        return self

    def __prepare_scriptable__(self) -> Any:  # called first by torch.jit.script
        raise NotImplementedError(
            "torch.jit.script cannot compile layers of equigeo: export them by torch.export.export"
        )

    def _load_from_state_dict(
        self, state_dict: Any, prefix: str, local_metadata: Mapping[str, Any], *args: Any
    ) -> None:
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *args)
        if not local_metadata.get("assign_to_params_buffers"):
            return
        # Parameters have left the meta device; buffers outside of the state follow them.
        for name, buffer in self._buffers.items():
            if buffer is not None and buffer.is_meta:
                device = torch.get_default_device()
                self._buffers[name] = self._remade(name, device, buffer.dtype)

    def _remade(self, name: str, device: torch.device, dtype: torch.dtype) -> Tensor:
        exact = self._exact[name]
        return exact.to(device, dtype if exact.is_floating_point() else None)


class Tables(Constants):
    """Constants that remain exact when a module is cast down and up again.

    Each table is stored in float64 on the CPU, and as a buffer in the dtype and on the device of
    the module. Casts convert the float64 table, never the buffer, and ``to_empty()`` leaves tables
    unchanged. Nothing enters the ``state_dict``.

    Parameters
    ----------
    **tables : Tensor, float64
        Constants by name.

    Examples
    --------
    >>> tables = Tables(third=torch.tensor([1 / 3], dtype=torch.float64))
    >>> tables.half().double()["third", torch.float64].item() == 1 / 3
    True
    >>> tables.state_dict()
    OrderedDict()
    """

    def __init__(self, **tables: Tensor) -> None:
        for name, table in tables.items():
            if table.dtype != torch.float64:
                raise TypeError(f"table {name} must be float64, got {table.dtype}")
        super().__init__(tables, torch.get_default_dtype())

    def __getitem__(self, key: tuple[str, torch.dtype]) -> Tensor:
        """Return a table by name and dtype, on the device of the module; do not modify it."""
        name, dtype = key
        buffer = buffer_of(self, name)
        return buffer if buffer.dtype == dtype else self._exact[name].to(buffer.device, dtype)


@final
class IndexTables(Constants):
    """Integer constants that are restored from the meta device and never saved."""

    def __init__(self, **tables: Tensor) -> None:
        super().__init__(tables)

    def __getitem__(self, name: str) -> Tensor:
        """Return a table on the device of the module; do not modify it."""
        return buffer_of(self, name)


def at_default_device(table: Tensor) -> Tensor:
    """Move a CPU table to ``torch.get_default_device()``."""
    return table.to(torch.get_default_device()) if table.device.type == "cpu" else table


def buffer_of(module: nn.Module, name: str) -> Tensor:
    """Return a buffer, 10x faster than by attribute access."""
    # Exported programs access buffers as attributes.
    found: Any = getattr(module, name) if is_compiling() else module._buffers[name]
    return found
