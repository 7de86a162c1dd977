"""The parser whose errors are one line."""

from __future__ import annotations

import argparse
import sys
from typing import NoReturn

from equigeo.tasks.text import message as shown

PROGRAM = "equigeo"


class Parser(argparse.ArgumentParser):
    """An argument parser that reports an error as the rest of the program does."""

    def error(self, message: str) -> NoReturn:
        """Print one message and exit with status 2."""
        print(f"{PROGRAM}: error: {shown(message)} (see {self.prog} --help)", file=sys.stderr)
        sys.exit(2)
