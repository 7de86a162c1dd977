"""Progress: a bar in a terminal, lines elsewhere."""

from __future__ import annotations

import sys
import time
from typing import TextIO

_STEP = 10  # per cent between two lines
_PAUSE = 0.1  # seconds between two looks of a bar
_WIDTH = 30


class Progress:
    """Progress callback that writes to standard error."""

    def __init__(
        self,
        name: str,
        unit: str,  # "B" for bytes, or empty
        stream: TextIO | None = None,
    ) -> None:
        self.name, self.unit = name, unit
        self.stream = sys.stderr if stream is None else stream
        self._shown = -1
        self._when = -_PAUSE

    def __call__(self, done: int, total: int | None) -> None:
        """Show the progress."""
        share = None if not total else min(100, 100 * done // total)
        is_last = total is not None and done >= total
        if self.stream.isatty():
            now = time.monotonic()
            if is_last or now - self._when >= _PAUSE:
                self._when = now
                self.stream.write(f"\r{self.name} {self._bar(share)} {self._amount(done, total)}")
                self.stream.write("\n" if is_last else "")
                self.stream.flush()
        elif share is not None and share // _STEP > self._shown:
            self._shown = share // _STEP
            self.stream.write(f"{self.name}: {share} % of {self._amount(total, None)}\n")

    def _bar(self, share: int | None) -> str:
        if share is None:
            return ""
        full = _WIDTH * share // 100
        return f"[{'=' * full}{' ' * (_WIDTH - full)}] {share:3d} %"

    def _amount(self, done: int | None, total: int | None) -> str:
        of = "" if total is None else f" of {self._amount(total, None)}"
        return f"{(done or 0) / 1e6:.1f} MB{of}" if self.unit == "B" else f"{done}{of}"
