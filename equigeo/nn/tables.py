"""Constant tables of a module, exact in whatever dtype the module works."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.compiler import is_compiling


class Tables(nn.Module):
    """Constants that stay exact when a module is cast down and up again.

    Each table is kept once in float64, on the CPU, and once as a buffer in the dtype and on the
    device of the module. A cast takes the buffer from the float64 table, never from itself, so that
    ``module.half().double()`` works in full double precision. Nothing enters the ``state_dict``.

    Parameters
    ----------
    **tables : Tensor, float64
        Constants by name.

    Raises
    ------
    TypeError
        If a table is not float64.

    Examples
    --------
    >>> tables = Tables(third=torch.tensor([1 / 3], dtype=torch.float64))
    >>> tables.half().double()["third", torch.float64].item() == 1 / 3
    True
    >>> tables.state_dict()
    OrderedDict()
    """

    def __init__(self, **tables: Tensor) -> None:
        super().__init__()
        for name, table in tables.items():
            if table.dtype != torch.float64:
                raise TypeError(f"table {name} must be float64, got {table.dtype}")
            self.register_buffer(name, table.to(torch.get_default_dtype()), persistent=False)
        self._exact = {name: table.cpu() for name, table in tables.items()}

    def __getitem__(self, key: tuple[str, torch.dtype]) -> Tensor:
        """Return a table, on the module's device.

        Parameters
        ----------
        key : tuple of (str, torch.dtype)
            Name, and the dtype of the features that meet it.

        Returns
        -------
        Tensor
            Not to be written to.
        """
        name, dtype = key
        buffer = buffer_of(self, name)
        return buffer if buffer.dtype == dtype else self._exact[name].to(buffer.device, dtype)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Any:
        before = dict(self._buffers)
        super()._apply(fn, recurse)
        for name, old in before.items():
            new = self._buffers[name]
            if old is None or new is None or new.is_meta:
                continue
            if new.dtype != old.dtype or old.is_meta:
                self._buffers[name] = self._exact[name].to(new.device, new.dtype)
        return self


def buffer_of(module: nn.Module, name: str) -> Tensor:
    """Return a buffer, in a tenth of the time that an attribute takes.

    Parameters
    ----------
    module : nn.Module
        Whose it is.
    name : str
        Its name.

    Returns
    -------
    Tensor
        The buffer itself.
    """
    # Exported programs know buffers as attributes.
    found: Any = getattr(module, name) if is_compiling() else module._buffers[name]
    tensor: Tensor = found
    return tensor
