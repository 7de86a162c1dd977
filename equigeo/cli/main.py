"""Entry point of the command line."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import equigeo
from equigeo._text import message

if TYPE_CHECKING:
    from equigeo.cli.parser import Parser

_PROGRAM: Final = "equigeo"
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


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command.

    Parameters
    ----------
    argv : sequence of str, optional
        Arguments after the program's name, by default those of the process.

    Returns
    -------
    int
        Exit status: 0, 1 where a check found something wrong, 2 after a user's error (one message
        on standard error), 130 after an interruption, or 143 after a request to terminate.

    Examples
    --------
    >>> main(["--version"])
    equigeo ...
    0
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:  # loads the kernels, which may refuse an environment variable
        parser = _build_parser()
    except KeyboardInterrupt:
        return _interrupted()
    except _ERRORS as error:
        if "--debug" in arguments:
            raise
        return _refused(error)
    from equigeo.cli.verbose import verbose

    try:
        options = parser.parse_args(arguments)
        _check_values(parser, options)
    except SystemExit as exit_:  # argparse has printed its message, or the help
        return int(exit_.code or 0)
    options.command_line = " ".join([_PROGRAM, *map(shlex.quote, arguments)])
    try:
        with verbose(getattr(options, "verbose", False)):
            return int(options.run(options))
    except KeyboardInterrupt:
        return _interrupted(getattr(options, "hint", ""))
    except SystemExit as exit_:  # of training that was told to terminate
        print(f"{_PROGRAM}: terminated{getattr(options, 'hint', '')}", file=sys.stderr)
        return int(exit_.code or 0)
    except _ERRORS as error:
        if options.debug:
            raise
        return _refused(error)


def _interrupted(hint: str = "") -> int:
    print(f"\n{_PROGRAM}: interrupted{hint}", file=sys.stderr)
    return 130


def _refused(error: Exception) -> int:
    print(f"{_PROGRAM}: error: {message(_one_message(error), lists=True)}", file=sys.stderr)
    return 2


def _build_parser() -> Parser:
    # not at the top: all of them import the kernels, and `main` says why those cannot be loaded
    from equigeo.cli import completion, data, doctor, evaluate, predict, presets, selftest, train
    from equigeo.cli.parser import Parser

    parser = Parser(
        prog=_PROGRAM,
        description="Networks on 3D geometry with declared symmetry.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"equigeo {equigeo.__version__}")
    parser.add_argument(
        "--debug", action="store_true", help="show the traceback of an error (default: no)"
    )
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    for command in (train, evaluate, predict, presets, data, doctor, selftest):
        command.add_parser(commands)
    completion.add_parser(commands, parser)
    return parser


def _check_values(parser: Parser, options: argparse.Namespace) -> None:
    """Refuse ``--option=--``, which argparse takes for a list of no values."""
    for name, value in vars(options).items():
        if value == []:
            parser.error(f"argument --{name.replace('_', '-')}: expected a value, got '--'")


def _one_message(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        where = f"{error.filename}: " if error.filename else ""
        return f"{where}{error.strerror}"
    text = str(error) or type(error).__name__
    return f"not enough memory ({text})" if isinstance(error, MemoryError) else text
