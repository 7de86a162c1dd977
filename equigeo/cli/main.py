"""Entry point of the command line."""

from __future__ import annotations

import argparse
import logging
import shlex
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from importlib import import_module
from typing import Final

import equigeo
from equigeo._core.text import message, printable
from equigeo.cli.parser import PROGRAM, Parser, add_command

_ERRORS: Final = (ValueError, OSError, ImportError, MemoryError)
_EPILOG = """\
Exit status: 0, 1 where a check found something wrong, 2 after an error, 130 after an
interruption, or 143 after a request to terminate.

examples:
  equigeo train mesh-classification --data builtin --output runs/mine
  equigeo evaluate runs/mine/model.ckpt
  equigeo predict runs/mine/model.ckpt horse.obj
  equigeo presets
"""


_COMMANDS: Final = {  # modules of this package, and what they do
    "train": "train a model",
    "evaluate": "measure accuracy and invariance",
    "predict": "classify files, or predict parts, or energies and forces",
    "presets": "show the settings of every preset, with their units",
    "data": "list, fetch, convert and verify published data sets",
    "doctor": "show versions, kernels and folders, and test every op on this machine",
    "selftest": "test every op on this machine (old name)",
    "completion": "print a script that makes a shell complete commands and options",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit status.

    The status is 0, 1 if a check failed, 2 after an error (one message on standard error), 130
    after an interruption, or 143 after a request to terminate.

    Parameters
    ----------
    argv : sequence of str, optional
        Arguments after the program's name, by default those of the process.

    Examples
    --------
    >>> main(["--version"])
    equigeo ...
    0
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    options = argparse.Namespace(debug=False, hint="")
    try:  # commands load the kernels, which raise for wrong environment variables
        parser = build_parser()
        try:
            parser.parse_args(arguments, options)
            for name, value in vars(options).items():
                if value == []:  # argparse accepts --option=-- as an empty list
                    parser.error(f"argument --{name.replace('_', '-')}: expected a value, got '--'")
        except SystemExit as exit_:  # argparse has printed its message, or the help
            return int(exit_.code or 0)
        options.command_line = " ".join([PROGRAM, *map(shlex.quote, arguments)])
        with ExitStack() as options.undo, verbose(getattr(options, "verbose", False)):
            return int(options.run(options))
    except KeyboardInterrupt:
        print(f"\n{PROGRAM}: interrupted{options.hint}", file=sys.stderr)
        return 130
    except SystemExit as exit_:  # of terminated training
        print(f"{PROGRAM}: terminated{options.hint}", file=sys.stderr)
        return int(exit_.code or 0)
    except _ERRORS as error:
        if options.debug:
            raise
        print(f"{PROGRAM}: error: {message(_one_message(error), lists=True)}", file=sys.stderr)
        return 2


def build_parser() -> Parser:
    """Build the parser; commands are imported when their arguments are needed."""
    parser = Parser(
        prog=PROGRAM, description="Networks on 3D geometry with declared symmetry.", epilog=_EPILOG
    )
    parser.add_argument("--version", action="version", version=f"equigeo {equigeo.__version__}")
    parser.add_argument(
        "--debug", action="store_true", help="show the traceback of an error (default: no)"
    )
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    for name, about in _COMMANDS.items():
        add_command(commands, name, about, partial(_fill, name))
    return parser


def _fill(name: str, parser: Parser) -> None:
    import_module(f"equigeo.cli.{name}").add_options(parser)


def _one_message(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        where = f"{error.filename}: " if error.filename else ""
        return f"{where}{error.strerror}"
    text = str(error) or type(error).__name__
    return f"not enough memory ({text})" if isinstance(error, MemoryError) else text


@contextmanager
def verbose(is_wanted: bool) -> Iterator[None]:
    """Log details and time to standard error during a block."""
    if not is_wanted:
        yield
        return
    import torch

    log, handler = logging.getLogger("equigeo"), logging.StreamHandler(sys.stderr)
    handler.setFormatter(_OneLine(f"{PROGRAM}: %(levelname)s: %(message)s"))
    level, start = log.level, time.perf_counter()
    log.addHandler(handler)
    log.setLevel(logging.DEBUG)
    kernels = ", ".join(f"{name} {value}" for name, value in equigeo.kernels_info().items())
    _say(f"{equigeo.__version__}, PyTorch {torch.__version__}, kernels {kernels}")
    try:
        yield
    finally:
        seconds, number = time.perf_counter() - start, torch.get_num_threads()
        _say(f"{seconds:.1f} s with {number} threads")
        log.removeHandler(handler)
        log.setLevel(level)


class _OneLine(logging.Formatter):
    """Formatter that escapes control characters in names of files and classes."""

    def format(self, record: logging.LogRecord) -> str:
        """Replace control characters by escapes."""
        return str(printable(super().format(record)))


def _say(text: str) -> None:
    print(f"{PROGRAM}: {text}", file=sys.stderr)
