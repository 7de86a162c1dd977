"""``equigeo completion``: shell completion of commands, options and their values."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any, Final

from equigeo.cli.main import build_parser
from equigeo.cli.parser import Parser

_PATHS: Final = {"DIR", "FILE", "ARCHIVE"}  # in the names of values


def add_options(parser: Parser) -> None:
    """Add the shell argument."""
    parser.explain(
        "0, or 2 after an error.",
        "source <(equigeo completion bash)        # or this line in ~/.bashrc",
        "source <(equigeo completion zsh)         # behind compinit in ~/.zshrc",
    )  # fmt: skip
    parser.add_argument("shell", choices=("bash", "zsh"), help="for which shell")
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    try:
        import shtab
    except ImportError as error:
        raise ImportError("completion needs shtab: pip install shtab") from error
    parser = build_parser()
    _prepare(parser, shtab.FILE)
    print(shtab.complete(parser, shell=options.shell))
    return 0


def _prepare(parser: Parser, files: dict[str, Any]) -> None:
    """Import all commands, and mark the options whose values are paths or one of some words."""
    parser.fill()
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for below in action.choices.values():
                _prepare(below, files)
        elif action.type is Path or not _PATHS.isdisjoint(str(action.metavar).split("|")):
            action.complete = files  # type: ignore[attr-defined]
        elif "|" in str(action.metavar):  # words in upper case are kinds of values
            action.choices = [x for x in str(action.metavar).split("|") if not x.isupper()]
