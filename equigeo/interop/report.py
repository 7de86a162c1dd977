"""Report of an acceleration, and times of the accelerated layers."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from typing import Any, NamedTuple

import torch
from torch import nn

from equigeo.interop.accelerated import Accelerated
from equigeo.interop.certificate import Certificate

_REPETITIONS = 7  # alternating, so that other load affects both


class ModuleNote(NamedTuple):
    """One module of a model, with its replacement or the reason against one."""

    path: str  # name in the model, "" for the model itself
    kind: str  # name of its class
    note: str  # replacement or reason


@dataclass(frozen=True, repr=False)
class AccelerationReport:
    """Result of :func:`equigeo.interop.accelerate`: notes with ``path``, ``kind`` and ``note``.

    Parameters
    ----------
    replaced : tuple of ModuleNote
        Accelerated modules, with the replacement.
    kept : tuple of ModuleNote
        Modules of a supported kind that were not replaced, with the reason.
    certificate : Certificate, optional
        Of ``accelerate(model, verify=True)``.
    unknown : tuple of ModuleNote
        Equivariant modules of other kinds, without supported modules inside.

    Examples
    --------
    >>> print(AccelerationReport((), (ModuleNote("a.b", "Linear", "is TorchScript"),)))
    0 replaced, 1 kept
    kept
      a.b  Linear  is TorchScript
    """

    replaced: tuple[ModuleNote, ...]
    kept: tuple[ModuleNote, ...]
    certificate: Certificate | None = None
    unknown: tuple[ModuleNote, ...] = ()

    def __repr__(self) -> str:
        verified = f", {self.certificate!r}" if self.certificate else ""
        return f"AccelerationReport({self._counts}{verified})"

    @property
    def _counts(self) -> str:
        unknown = f", {len(self.unknown)} unknown" if self.unknown else ""
        return f"{len(self.replaced)} replaced, {len(self.kept)} kept{unknown}"

    def __str__(self) -> str:
        """Return a table with one line per module, and the result of the comparison."""
        lines = [self._counts]
        for title in ("replaced", "kept", "unknown"):
            notes: tuple[ModuleNote, ...] = getattr(self, title)
            if notes:
                lines.append(title)
                rows = [(note.path or "(the model)", note.kind, note.note) for note in notes]
                widths = [max(len(row[k]) for row in rows) for k in range(2)]
                lines += [f"  {a:{widths[0]}}  {b:{widths[1]}}  {c}" for a, b, c in rows]
        if self.certificate:
            lines.append(f"verified: {str(self.certificate).splitlines()[0]}")
        return "\n".join(lines)


@dataclass(frozen=True)
class LayerSpeed:
    """Forward times of one layer."""

    path: str  # name in the model, "" for the model itself
    before: float  # seconds of the original forward, median
    after: float  # seconds with the ops of this library, median

    @property
    def speedup(self) -> float:
        """Return the ratio of both times."""
        return self.before / self.after


def measure_layers(
    model: nn.Module,
    rows: int = 1024,  # number of samples or edges
) -> list[LayerSpeed]:
    """Time the forward pass of every accelerated layer against its original on random features."""
    found = [(path, m) for path, m in model.named_modules() if isinstance(m, Accelerated)]
    return [_measure(path, module, rows) for path, module in found]


def _measure(path: str, module: Any, rows: int) -> LayerSpeed:
    arguments = module.example(rows)
    before, after = [], []
    with torch.no_grad(), module.unchanged():
        for repetition in range(_REPETITIONS + 1):
            pair = _seconds(module.original, arguments), _seconds(module.forward, arguments)
            if repetition:  # the first compiles, plans and allocates
                before.append(pair[0])
                after.append(pair[1])
    return LayerSpeed(path, median(before), max(median(after), 1e-9))


def _seconds(call: Callable[..., Any], arguments: tuple[Any, ...]) -> float:
    _wait(arguments)
    start = time.perf_counter()
    call(*arguments)
    _wait(arguments)
    return time.perf_counter() - start


def _wait(arguments: tuple[Any, ...]) -> None:
    if any(isinstance(x, torch.Tensor) and x.is_cuda for x in arguments):
        torch.cuda.synchronize()
