"""Every option says in its help what holds where it is not given."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Iterator

import pytest

from equigeo.cli.main import build_parser, main
from equigeo.cli.parser import Parser


def parsers(parser: Parser) -> Iterator[Parser]:
    """A parser and those below it."""
    parser.fill()
    yield parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for below in action.choices.values():
                yield from parsers(below)


@pytest.fixture(scope="module")
def commands():
    return [parser for parser in parsers(build_parser()) if parser.prog != "equigeo info"]


def test_options_name_their_defaults(commands):
    options = [(parser.prog, option) for parser in commands for option in parser._actions]
    silent = [
        f"{command} {option.option_strings[-1]}"
        for command, option in options
        if option.option_strings and option.dest not in {"help", "version"}
        if not any(word in option.help for word in ("default", "needed"))
    ]
    assert silent == []
    assert len(options) > 200
    # a default that is set later, because a file of options may say otherwise, is named too
    assert not [p.prog for p in commands if "default: None" in " ".join(p.format_help().split())]


def test_defaults_are_those_of_each_preset(capsys):
    assert main(["train", "mesh-classification", "--help"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "passes over the training samples (default: 50; paper: 200)" in text
    assert "samples of a step (default: 16)" in text
    assert "final weights (default: yes; paper: no)" in text
    assert "running statistics of training (default: no; paper: yes)" in text
    assert "(needed for a new run)" in text


def test_commands_show_what_they_do_their_exit_status_and_examples_that_parse(commands):
    for parser in commands:
        assert parser.description, parser.prog
        status, _, examples = parser.format_help().partition("examples:\n")
        assert "Exit status: 0" in status, parser.prog
        assert 1 <= examples.count(f"{parser.prog} ") <= 6, parser.prog
        for line in examples.splitlines():
            words = line.replace("<(", "").replace(")", "").partition("  #")[0]
            command = words[words.index("equigeo ") :].split(" > ")[0].split(" | ")[0]
            assert build_parser().parse_args(shlex.split(command)[1:]), line
