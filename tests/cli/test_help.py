"""Every option says in its help what holds where it is not given."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Iterator

import pytest

from equigeo.cli.main import _build_parser, main

Option = tuple[str, argparse.Action]


def options(parser: argparse.ArgumentParser, path: str = "equigeo") -> Iterator[Option]:
    """All options of a parser and of those below it."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, below in action.choices.items():
                yield from options(below, f"{path} {name}")
        elif action.option_strings and action.dest not in {"help", "version"}:
            yield path, action


ALL = [*options(_build_parser())]


@pytest.mark.parametrize(
    ("path", "option"), ALL, ids=[f"{path} {x.option_strings[-1]}" for path, x in ALL]
)
def test_an_option_names_its_default(path, option):
    assert option.help
    assert "default" in option.help or "needed" in option.help


def shown(capsys, *command):
    assert main([*command, "--help"]) == 0
    return " ".join(capsys.readouterr().out.split())


def test_defaults_are_those_of_each_preset(capsys):
    text = shown(capsys, "train", "mesh-classification")
    assert "passes over the training samples (default: 50; paper: 200)" in text
    assert "samples of a step (default: 16)" in text
    assert "final weights (default: yes; paper: no)" in text
    assert "running statistics of training (default: no; paper: yes)" in text
    assert "(needed for a new run)" in text


def parsers(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """A parser and those below it."""
    yield parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for below in action.choices.values():
                yield from parsers(below)


COMMANDS = [parser for parser in parsers(_build_parser()) if parser.prog != "equigeo info"]


@pytest.mark.parametrize("parser", COMMANDS, ids=lambda parser: parser.prog)
def test_no_default_is_left_to_be_guessed(parser):
    """One that is set later, because a file of options may say otherwise, is told all the same."""
    assert "default: None" not in " ".join(parser.format_help().split())


@pytest.mark.parametrize("parser", COMMANDS, ids=[parser.prog for parser in COMMANDS])
def test_a_command_shows_what_it_does_its_exit_status_and_examples_that_work(parser):
    assert parser.description
    status, _, examples = parser.format_help().partition("examples:\n")
    assert "Exit status: 0" in status
    assert 1 <= examples.count(f"{parser.prog} ") <= 6
    for line in examples.splitlines():
        words = line.replace("<(", "").replace(")", "").partition("  #")[0]
        command = words[words.index("equigeo ") :].split(" > ")[0].split(" | ")[0]
        assert _build_parser().parse_args(shlex.split(command)[1:])
