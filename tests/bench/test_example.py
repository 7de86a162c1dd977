from __future__ import annotations

from pathlib import Path

from bench.example import EPOCHS

MAKEFILE = Path(__file__).parents[2] / "Makefile"


def test_the_epochs_are_those_of_the_makefile():
    assert f"EXAMPLE_ARGS ?= --data builtin --overwrite --epochs {EPOCHS}\n" in MAKEFILE.read_text()
