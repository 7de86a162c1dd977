"""Report of replaced and unreplaced modules of a model, with reasons."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from equigeo.interop.certificate.certificate import Certificate


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
        """Return one line for a model of any size."""
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
