"""The parser whose errors are one line."""

from __future__ import annotations

import argparse
import sys
from typing import NoReturn

PROGRAM = "equigeo"


class Parser(argparse.ArgumentParser):
    """An argument parser that reports an error as the rest of the program does."""

    def error(self, message: str) -> NoReturn:
        """Print one message and exit with status 2."""
        print(f"{PROGRAM}: error: {message} (see {self.prog} --help)", file=sys.stderr)
        sys.exit(2)


def positive(text: str) -> int:
    """Read an integer of at least 1.

    Raises
    ------
    argparse.ArgumentTypeError
        If it is none.
    """
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a positive integer, got {text!r}")
    return int(text)


def natural(text: str) -> int:
    """Read an integer of at least 0.

    Raises
    ------
    argparse.ArgumentTypeError
        If it is none.
    """
    if not text.isascii() or not text.isdigit():
        raise argparse.ArgumentTypeError(f"expected an integer of at least 0, got {text!r}")
    return int(text)
