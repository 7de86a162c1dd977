"""Entry point of the command line."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Sequence
from functools import partial
from importlib import import_module
from typing import Final

import equigeo
from equigeo._core.text import message
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


_COMMANDS: Final = {  # the module of each, and what it does
    "train": ("equigeo.cli.train", "train a model"),
    "evaluate": ("equigeo.cli.evaluate", "measure accuracy and invariance"),
    "predict": (
        "equigeo.cli.predict", "classify files, tell their parts, or energies and forces",
    ),
    "presets": (
        "equigeo.cli.presets", "show the settings of every preset, with their units",
    ),
    "data": ("equigeo.cli.data", "list, fetch, convert and verify published data sets"),
    "doctor": (
        "equigeo.cli.doctor",
        "show versions, kernels and folders, and test every op on this machine",
    ),
    "selftest": ("equigeo.cli.selftest", "test every op on this machine (old name)"),
    "completion": (
        "equigeo.cli.completion",
        "print a script that makes a shell complete commands and options",
    ),
}  # fmt: skip


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
    try:  # commands load the kernels, which may refuse an environment variable
        parser = build_parser()
        try:
            parser.parse_args(arguments, options)
            for name, value in vars(options).items():
                if value == []:  # argparse accepts --option=-- as an empty list
                    parser.error(f"argument --{name.replace('_', '-')}: expected a value, got '--'")
        except SystemExit as exit_:  # argparse has printed its message, or the help
            return int(exit_.code or 0)
        from equigeo.cli.verbose import verbose

        options.command_line = " ".join([PROGRAM, *map(shlex.quote, arguments)])
        with verbose(getattr(options, "verbose", False)):
            return int(options.run(options))
    except KeyboardInterrupt:
        print(f"\n{PROGRAM}: interrupted{options.hint}", file=sys.stderr)
        return 130
    except SystemExit as exit_:  # of training that was told to terminate
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
        prog=PROGRAM,
        description="Networks on 3D geometry with declared symmetry.",
        epilog=_EPILOG,
    )
    parser.add_argument("--version", action="version", version=f"equigeo {equigeo.__version__}")
    parser.add_argument(
        "--debug", action="store_true", help="show the traceback of an error (default: no)"
    )
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    for name, (module, about) in _COMMANDS.items():
        add_command(commands, name, about, partial(_fill, module))
    return parser


def _fill(module: str, parser: Parser) -> None:
    import_module(module).add_options(parser)


def _one_message(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        where = f"{error.filename}: " if error.filename else ""
        return f"{where}{error.strerror}"
    text = str(error) or type(error).__name__
    return f"not enough memory ({text})" if isinstance(error, MemoryError) else text
