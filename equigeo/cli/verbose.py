"""``--verbose``: versions, log messages, time and memory."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import torch

import equigeo
from equigeo._text import printable
from equigeo.cli.parser import PROGRAM


@contextmanager
def verbose(is_wanted: bool) -> Iterator[None]:
    """Log details, time and memory to standard error during a block."""
    if not is_wanted:
        yield
        return
    log, handler = logging.getLogger("equigeo"), logging.StreamHandler(sys.stderr)
    handler.setFormatter(_OneLine(f"{PROGRAM}: %(levelname)s: %(message)s"))
    level, start = log.level, time.perf_counter()
    log.addHandler(handler)
    log.setLevel(logging.DEBUG)
    _say(f"{equigeo.__version__}, PyTorch {torch.__version__}, kernels {_kernels()}")
    try:
        yield
    finally:
        seconds, number = time.perf_counter() - start, torch.get_num_threads()
        _say(f"{seconds:.1f} s with {number} threads{_memory()}")
        log.removeHandler(handler)
        log.setLevel(level)


class _OneLine(logging.Formatter):
    """Formatter that escapes control characters in names of files and classes."""

    def format(self, record: logging.LogRecord) -> str:
        """Replace control characters by escapes."""
        return str(printable(super().format(record)))


def _say(text: str) -> None:
    print(f"{PROGRAM}: {text}", file=sys.stderr)


def _kernels() -> str:
    info = equigeo.kernels_info()
    return ", ".join(f"{name} {value}" for name, value in info.items())


def _memory() -> str:
    """Return the peak memory of the process, if the system reports it."""
    try:
        import resource
    except ImportError:  # Windows
        return ""
    unit = 2**20 if sys.platform == "darwin" else 2**10  # bytes there, else KiB
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit
    return f", at most {peak:.0f} MiB of memory"
