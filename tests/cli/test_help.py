"""Every option says in its help what holds where it is not given."""

from __future__ import annotations

import argparse
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


@pytest.mark.parametrize(
    "command", ["completion", "data", "doctor", "evaluate", "predict", "train"]
)
def test_a_command_shows_examples_and_exit_status(capsys, command):
    text = shown(capsys, command)
    assert "Exit status: 0" in text
    assert f"equigeo {command}" in text.partition("examples:")[2]
