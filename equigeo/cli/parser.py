"""The parser whose errors are one line, and the options that commands share."""

from __future__ import annotations

import argparse
import sys
from typing import Any, NoReturn

from equigeo._text import message as shown
from equigeo.tasks.arguments import Argument, threads

PROGRAM = "equigeo"


class Parser(argparse.ArgumentParser):
    """An argument parser that reports an error as the rest of the program does.

    Attributes
    ----------
    takes_more : str
        Name of a list of positional arguments that need not stand together; empty if there is none.
        Where such a list may be empty, argparse fills it from the first group and refuses the rest.
    """

    takes_more = ""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Take positional arguments behind options, too."""
        found, extras = super().parse_known_args(args, namespace)
        if self.takes_more and extras and not any(word.startswith("-") for word in extras):
            setattr(found, self.takes_more, [*getattr(found, self.takes_more), *extras])
            extras = []
        return found, extras

    def error(self, message: str) -> NoReturn:
        """Print one message and exit with status 2."""
        print(f"{PROGRAM}: error: {shown(message)} (see {self.prog} --help)", file=sys.stderr)
        sys.exit(2)


def add_command(commands: Any, name: str, about: str, exit_status: str, *examples: str) -> Any:
    """Add a command whose help ends with its exit status and examples.

    Parameters
    ----------
    commands : subparsers
        Those of the program, or of a command.
    name, about : str
        What is typed, and what it does.
    exit_status : str
        What the numbers mean, after "Exit status: ".
    *examples : str
        Commands.
    """
    lines = [f"Exit status: {exit_status}", "", "examples:", *(f"  {line}" for line in examples)]
    return commands.add_parser(
        name,
        help=about,
        description=f"{about[0].upper()}{about[1:]}.",
        epilog="\n".join(lines),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )


def add_verbosity(parser: Any) -> None:
    """Add the options of a command that shows how far it is, or has something to remark."""
    either = parser.add_mutually_exclusive_group()
    either.add_argument(
        "--quiet", action="store_true",
        help="show no progress and no remarks on standard error, only what is wrong (default: no)",
    )  # fmt: skip
    either.add_argument(
        "--verbose", action="store_true",
        help="say on standard error what is used, what the library logs, seconds and memory "
        "(default: no)",
    )  # fmt: skip


def add_machine(parser: Any, device: str) -> None:
    """Add the options that say what computes.

    Parameters
    ----------
    parser : argparse.ArgumentParser or group
        Of the command.
    device : str
        What holds by default.
    """
    parser.add_argument(
        "--device",
        choices=("auto", "cpu", "cuda"),
        default=device,
        help=f"what computes; auto: a GPU where there is one (default: {device})",
    )
    Argument("--threads", "of each process (default: one per core)", threads, metavar="N").add_to(
        parser
    )
