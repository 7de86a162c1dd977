"""Options of the command line, as data that a task declares."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Argument:
    """One option; what the user does not give is None.

    Parameters
    ----------
    flag : str
        What the user types, such as ``"--split-index"``.
    help : str
        One line.
    type : callable
        Reads the value; for numbers :func:`positive` and :func:`natural`.
    choices : tuple of str, optional
        Values that are allowed, by default all.
    metavar : str, optional
        What the value is called in the help.
    constant : object, optional
        What the option means; it then takes no value.
    dest : str, optional
        Name in the parsed options, by default that of the flag.

    Examples
    --------
    >>> parser = argparse.ArgumentParser()
    >>> Argument("--split-index", "number of the draw", natural).add_to(parser)
    >>> parser.parse_args(["--split-index", "2"])
    Namespace(split_index=2)
    """

    flag: str
    help: str
    type: Callable[[str], Any] = str
    choices: tuple[str, ...] | None = None
    metavar: str | None = None
    constant: object = None
    dest: str | None = None

    @property
    def name(self) -> str:
        """Name in the parsed options."""
        return self.dest or self.flag.lstrip("-").replace("-", "_")

    def add_to(self, group: Any) -> None:
        """Add the option to a parser or to a group of one."""
        if self.constant is not None:
            group.add_argument(
                self.flag, dest=self.name, action="store_const", const=self.constant, help=self.help
            )
        else:
            group.add_argument(
                self.flag,
                dest=self.name,
                type=self.type,
                choices=self.choices,
                metavar=self.metavar,
                help=self.help,
            )


def positive(text: str) -> int:
    """Read an integer of at least 1.

    Raises
    ------
    argparse.ArgumentTypeError
        If it is none.
    """
    return _integer(text, 1, "a positive integer")


def natural(text: str) -> int:
    """Read an integer of at least 0.

    Raises
    ------
    argparse.ArgumentTypeError
        If it is none.
    """
    return _integer(text, 0, "an integer of at least 0")


def _integer(text: str, least: int, expected: str) -> int:
    # int() would also read " 1", "1_000" and digits of other scripts
    if not text.isascii() or not text.isdigit() or int(text) < least:
        raise argparse.ArgumentTypeError(f"expected {expected}, got {text!r}")
    return int(text)
