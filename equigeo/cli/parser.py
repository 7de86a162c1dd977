"""The parser whose errors are one line, and what commands share; imports no torch."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from typing import Any, NoReturn

from equigeo._text import message as shown

PROGRAM = "equigeo"


class Parser(argparse.ArgumentParser):
    """An argument parser that reports an error as the rest of the program does.

    Parameters
    ----------
    fill : callable, optional
        Adds the arguments when they are first needed, because that may import much.

    Attributes
    ----------
    takes_more : str
        Name of a list of positional arguments that need not stand together; empty if there is none.
        Where such a list may be empty, argparse fills it from the first group and refuses the rest.
    """

    takes_more = ""

    def __init__(self, *, fill: Callable[[Parser], None] | None = None, **options: Any) -> None:
        super().__init__(formatter_class=argparse.RawDescriptionHelpFormatter, **options)
        self._fill = fill

    def fill(self) -> None:
        """Add the arguments that are still missing."""
        fill, self._fill = self._fill, None
        if fill is not None:
            fill(self)

    def explain(self, exit_status: str, *examples: str) -> None:
        """End the help with the exit status and examples."""
        lines = [f"Exit status: {exit_status}", "", "examples:", *(f"  {x}" for x in examples)]
        self.epilog = "\n".join(lines)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Take positional arguments behind options, too."""
        self.fill()
        found, extras = super().parse_known_args(args, namespace)
        if self.takes_more and extras and not any(word.startswith("-") for word in extras):
            setattr(found, self.takes_more, [*getattr(found, self.takes_more), *extras])
            extras = []
        return found, extras

    def error(self, message: str) -> NoReturn:
        """Print one message and exit with status 2."""
        print(f"{PROGRAM}: error: {shown(message)} (see {self.prog} --help)", file=sys.stderr)
        sys.exit(2)


def add_command(commands: Any, name: str, about: str, fill: Callable[[Parser], None]) -> None:
    """Add a command to those of a parser; ``fill`` adds its arguments when they are needed."""
    description = f"{about[0].upper()}{about[1:]}."
    commands.add_parser(name, help=about, description=description, fill=fill)


def add_verbosity(parser: Any, action: Any = "store_true") -> None:
    """Add the options of a command that shows how far it is, or has something to remark."""
    either = parser.add_mutually_exclusive_group()
    either.add_argument(
        "--quiet", action=action,
        help="show no progress and no remarks on standard error, only what is wrong (default: no)",
    )  # fmt: skip
    either.add_argument(
        "--verbose", action=action,
        help="say on standard error what is used, what the library logs, seconds and memory "
        "(default: no)",
    )  # fmt: skip
