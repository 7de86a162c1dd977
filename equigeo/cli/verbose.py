"""``--verbose``: versions, log messages and time."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import torch

import equigeo
from equigeo._core.text import printable
from equigeo.cli.parser import PROGRAM


@contextmanager
def verbose(is_wanted: bool) -> Iterator[None]:
    """Log details and time to standard error during a block."""
    if not is_wanted:
        yield
        return
    log, handler = logging.getLogger("equigeo"), logging.StreamHandler(sys.stderr)
    handler.setFormatter(_OneLine(f"{PROGRAM}: %(levelname)s: %(message)s"))
    level, start = log.level, time.perf_counter()
    log.addHandler(handler)
    log.setLevel(logging.DEBUG)
    kernels = ", ".join(f"{name} {value}" for name, value in equigeo.kernels_info().items())
    _say(f"{equigeo.__version__}, PyTorch {torch.__version__}, kernels {kernels}")
    try:
        yield
    finally:
        seconds, number = time.perf_counter() - start, torch.get_num_threads()
        _say(f"{seconds:.1f} s with {number} threads")
        log.removeHandler(handler)
        log.setLevel(level)


class _OneLine(logging.Formatter):
    """Formatter that escapes control characters in names of files and classes."""

    def format(self, record: logging.LogRecord) -> str:
        """Replace control characters by escapes."""
        return str(printable(super().format(record)))


def _say(text: str) -> None:
    print(f"{PROGRAM}: {text}", file=sys.stderr)
