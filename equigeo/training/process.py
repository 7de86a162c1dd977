"""Signals, devices and random streams of a training process."""

from __future__ import annotations

import random
import signal
import threading
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final

import numpy as np
import torch

TERMINATED: Final = 128 + signal.SIGTERM  # exit status in shells after SIGTERM
_CHOSEN: ContextVar[str] = ContextVar("_CHOSEN", default="auto")
_DEVICES = ("auto", "cpu", "cuda")


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


@contextmanager
def training_on(device: str) -> Iterator[None]:
    """Select the training device for a block: "auto" (a GPU if there is one), "cpu" or "cuda"."""
    if device not in _DEVICES:
        raise ValueError(f"device must be one of {', '.join(_DEVICES)}, got {device!r}")
    if device == "cuda" and not torch.cuda.is_available():
        raise ValueError("device must be auto or cpu where PyTorch finds no GPU, got 'cuda'")
    before = _CHOSEN.set(device)
    try:
        yield
    finally:
        _CHOSEN.reset(before)


def count_gpus() -> int:
    """Return the number of GPUs for training; 0 selects the CPU."""
    may = _CHOSEN.get() != "cpu" and torch.cuda.is_available()
    return torch.cuda.device_count() if may else 0


# A run that continues at epoch k draws what an uninterrupted run draws there, without any stored
# generator state.


def seed_sequence(seed: int, name: str, *position: int) -> np.random.SeedSequence:
    """Return the seed sequence of a named stream at a position, such as (epoch, step)."""
    return np.random.SeedSequence([seed, zlib.crc32(name.encode()), *position])


def derived_generator(seed: int, name: str, *position: int) -> torch.Generator:
    """Return a CPU generator seeded from a named stream at a position."""
    words = seed_sequence(seed, name, *position).generate_state(1, np.uint64)
    return torch.Generator().manual_seed(int(words[0]) >> 1)  # a torch seed is a signed integer


def enter_stream(seed: int, name: str, *position: int) -> None:
    """Seed the global generators of torch, numpy and Python; call it in ``isolated_streams``."""
    # Dropout and user code draw from global generators; seeding them at every step makes both
    # repeatable across interruptions.
    torch.set_rng_state(derived_generator(seed, name, *position).get_state())
    # eight words: the state of a Mersenne twister is spread from them
    words = seed_sequence(seed, name, *position).generate_state(8)
    np.random.set_state(np.random.RandomState(np.random.MT19937(words)).get_state())  # noqa: NPY002
    random.seed(words.tobytes())
    if torch.cuda.is_initialized():
        start = derived_generator(seed, name, *position).initial_seed()
        cards = [torch.device("cuda", i) for i in range(torch.cuda.device_count())]
        states = [torch.Generator(card).manual_seed(start).get_state() for card in cards]
        torch.cuda.set_rng_state_all(states)


@contextmanager
def isolated_streams() -> Iterator[None]:
    """Restore the global generators of torch, numpy and Python after a block."""
    numpy_state, python_state = np.random.get_state(), random.getstate()  # noqa: NPY002
    devices = range(torch.cuda.device_count()) if torch.cuda.is_initialized() else ()
    with torch.random.fork_rng(devices):
        try:
            yield
        finally:
            np.random.set_state(numpy_state)  # noqa: NPY002
            random.setstate(python_state)
