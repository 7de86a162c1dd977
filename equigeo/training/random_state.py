"""Random streams that depend on the seed and the position in the run, and on nothing else."""

from __future__ import annotations

import random
import zlib
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch

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
        torch.cuda.set_rng_state_all(
            [
                derived_generator_on(torch.device("cuda", i), seed, name, *position).get_state()
                for i in range(torch.cuda.device_count())
            ]
        )


def derived_generator_on(
    device: torch.device, seed: int, name: str, *position: int
) -> torch.Generator:
    """Return a generator on ``device`` seeded from a named stream at a position."""
    source = derived_generator(seed, name, *position)
    return torch.Generator(device).manual_seed(source.initial_seed())


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
