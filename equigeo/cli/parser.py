"""The parser whose errors are one line."""

from __future__ import annotations

import argparse
import sys
from typing import Any, NoReturn

from equigeo.tasks.text import message as shown

PROGRAM = "equigeo"


class Parser(argparse.ArgumentParser):
    """An argument parser that reports an error as the rest of the program does."""

    def error(self, message: str) -> NoReturn:
        """Print one message and exit with status 2."""
        print(f"{PROGRAM}: error: {shown(message)} (see {self.prog} --help)", file=sys.stderr)
        sys.exit(2)


def add_quiet(parser: Any) -> None:
    """Add the option to a command that shows how far it is, or has something to remark."""
    parser.add_argument(
        "--quiet", action="store_true",
        help="show no progress and no remarks on standard error, only what is wrong (default: no)",
    )  # fmt: skip
