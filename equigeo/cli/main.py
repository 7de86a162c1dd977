"""Entry point of the command line."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Sequence

import equigeo
from equigeo.cli import completion, data, doctor, evaluate, predict, presets, selftest, train
from equigeo.cli.parser import PROGRAM, Parser
from equigeo.cli.verbose import verbose
from equigeo.tasks.text import message

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
    parser = _build_parser()
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        options = parser.parse_args(arguments)
        _check_values(parser, options)
    except SystemExit as exit_:  # argparse has printed its message, or the help
        return int(exit_.code or 0)
    options.command_line = " ".join([PROGRAM, *map(shlex.quote, arguments)])
    try:
        with verbose(getattr(options, "verbose", False)):
            return int(options.run(options))
    except KeyboardInterrupt:
        print(f"\n{PROGRAM}: interrupted{getattr(options, 'hint', '')}", file=sys.stderr)
        return 130
    except SystemExit as exit_:  # of training that was told to terminate
        print(f"{PROGRAM}: terminated{getattr(options, 'hint', '')}", file=sys.stderr)
        return int(exit_.code or 0)
    except (ValueError, OSError, ImportError, MemoryError) as error:
        if options.debug:
            raise
        print(f"{PROGRAM}: error: {message(_one_message(error))}", file=sys.stderr)
        return 2


def _build_parser() -> Parser:
    parser = Parser(
        prog=PROGRAM,
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
