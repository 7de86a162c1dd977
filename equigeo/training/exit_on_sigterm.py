"""Orderly exit on SIGTERM."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

TERMINATED: Final = 128 + signal.SIGTERM  # exit status of such a process in shells


@contextmanager
def exit_on_sigterm() -> Iterator[None]:
    """Convert SIGTERM to ``SystemExit(143)``, so that files are closed and locks released.

    Nothing changes if the program has its own handler, or outside the main thread.

    Examples
    --------
    >>> import os
    >>> with exit_on_sigterm():
    ...     os.kill(os.getpid(), signal.SIGTERM)
    Traceback (most recent call last):
        ...
    SystemExit: 143
    """
    is_ours = (
        threading.current_thread() is threading.main_thread()
        and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    )
    if is_ours:
        signal.signal(signal.SIGTERM, _exit)
    try:
        yield
    finally:
        if is_ours:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _exit(number: int, frame: Any) -> None:
    raise SystemExit(TERMINATED)
