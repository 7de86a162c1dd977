"""Argument parser with one-line errors, and options that commands share; imports no torch."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from typing import Any, NoReturn

from equigeo._core.text import message as shown

PROGRAM = "equigeo"


class Parser(argparse.ArgumentParser):
    """Argument parser with one-line errors that adds its arguments on first use."""

    takes_more = ""

    def __init__(
        self,
        *,
        fill: Callable[[Parser], None] | None = None,  # adds the arguments
        **options: Any,
    ) -> None:
        # `takes_more` names a list of positional arguments that may be separated by options;
        # argparse would reject all but the first group.
        super().__init__(formatter_class=argparse.RawDescriptionHelpFormatter, **options)
        self._fill = fill

    def fill(self) -> None:
        """Add the arguments that are still missing."""
        fill, self._fill = self._fill, None
        if fill is not None:
            fill(self)

    def explain(self, exit_status: str, *examples: str) -> None:
        """Append the exit status and examples to the help."""
        lines = [f"Exit status: {exit_status}", "", "examples:", *(f"  {x}" for x in examples)]
        self.epilog = "\n".join(lines)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse positional arguments after options, too."""
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
    """Add a subcommand; ``fill`` adds its arguments on first use."""
    description = f"{about[0].upper()}{about[1:]}."
    commands.add_parser(name, help=about, description=description, fill=fill)


def add_verbosity(parser: Any) -> None:
    """Add the options of a command that shows progress or remarks."""
    either = parser.add_mutually_exclusive_group()
    either.add_argument(
        "--quiet", action="store_true",
        help="show no progress and no remarks on standard error, only what is wrong (default: no)",
    )  # fmt: skip
    either.add_argument(
        "--verbose", action="store_true",
        help="print versions, log messages of the library and seconds on standard error "
        "(default: no)",
    )  # fmt: skip
