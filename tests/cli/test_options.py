import argparse
import json
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import redirect_stdout

import pytest

from equigeo.cli import main
from equigeo.cli.main import build_parser
from equigeo.cli.options import RECIPE, RUN, setting
from equigeo.cli.parser import Parser
from equigeo.mesh import PrimalDualClassifier
from equigeo.tasks import TASKS
from equigeo.tasks.common.arguments import natural, number, numbers, positive, threads
from equigeo.training.loop.session import LOGGERS

NUMBERS = {natural, number, numbers, positive, threads}
NO_UNIT = {"seed", "split_index"}  # numbers of draws


def described(capsys, *arguments):
    assert main(["presets", *arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_all_presets_of_all_tasks_are_there_with_all_settings(capsys):
    found = described(capsys)
    expected = [(task, config) for task in TASKS for config in task.config_type.presets()]
    assert [entry["task"] for entry in found] == [task.name for task, _ in expected]
    for entry, (_, config) in zip(found, expected, strict=True):
        assert entry["preset"]["preset"] == config.preset
        names = {*config.to_dict(), *config.recipe.to_dict()} - {*config.unused}
        assert entry["settings"].keys() == names - {"data", "preset", "recipe", "model"}
        for name, shown in entry["settings"].items():
            value = setting(config, name)
            assert shown["value"] == (list(value) if isinstance(value, tuple) else value)


def test_the_settings_of_a_model_are_those_that_are_built(capsys):
    found = described(capsys, "mesh-classification")
    for entry in found:
        model = PrimalDualClassifier.preset(entry["preset"]["preset"], num_classes=7).config
        values = {name: shown["value"] for name, shown in entry["model"].items()}
        assert values | {"num_classes": 7} == model.to_dict()
    assert [entry["preset"]["preset"] for entry in found] == ["default", "paper"]


def test_the_command_of_a_preset_gives_its_settings(capsys, tmp_path):
    for entry in described(capsys, "tsp"):
        words = entry["command"].split()[1:]
        output = ["--output", str(tmp_path / "run")]
        assert main([*words, "--instances", "8", "--cities", "4", "--dry-run", *output]) == 0
        assert f"{entry['settings']['epochs']['value']} epochs" in capsys.readouterr().out


def test_lines_have_option_value_and_unit(capsys, refused):
    assert "choose from" in refused("presets", "paper")
    assert main(["presets", "potential"]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["equigeo", "train", "potential", "--preset", "crystal"] in lines
    assert lines.count(["cutoff", "--cutoff", "5", "angstrom"]) == 4
    assert lines.count(["forces_weight", "--forces-weight", "0", "of", "(eV/A)^2"]) == 1


def test_numbers_have_units():
    tasks = [(task.name, (*task.train_arguments, *task.evaluate_arguments)) for task in TASKS]
    for name, options in [("all", (*RUN, *RECIPE)), *tasks]:
        for option in options:
            is_number = option.constant is None and option.type in NUMBERS
            has_unit = is_number and option.name not in NO_UNIT
            assert bool(option.unit) == has_unit, f"{name} {option.flag}"
            assert option.unit in option.text, f"{name} {option.flag}"


def test_shared_options_are_in_the_words_of_a_task_that_declares_them(capsys):
    texts = {}
    for name in ("mesh-dynamics", "pointcloud"):
        assert main(["train", name, "--help"]) == 0
        texts[name] = " ".join(capsys.readouterr().out.split())
    for words in ("noise on states (root mean squares of their components; default: 0.003)",
                  "data, which are the same for every seed"):  # fmt: skip
        assert words in texts["mesh-dynamics"]
        assert words not in texts["pointcloud"]
    assert "mean edge lengths" not in texts["mesh-dynamics"]
    assert "mean edge lengths" in texts["pointcloud"]
    settings = described(capsys, "mesh-dynamics")[0]["settings"]
    assert settings["jitter"]["unit"] == "root mean squares of their components"


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
    return [*parsers(build_parser())]


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


TASK_NAMES = {task.name for task in TASKS}
TRAIN = "equigeo train mesh-classification"


@pytest.fixture(scope="module")
def scripts(tmp_path_factory):
    """The script of each shell, as a file."""
    pytest.importorskip("shtab", reason="needs pip install shtab")
    folder = tmp_path_factory.mktemp("completion")
    for shell in ("bash", "zsh"):
        with (folder / shell).open("w") as file, redirect_stdout(file):
            assert main(["completion", shell]) == 0
    return folder


@pytest.fixture
def complete(scripts, tmp_path):
    """What bash offers for the last word of a line."""

    def run(line: str) -> set[str]:
        code = (
            f'source {scripts / "bash"}; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); '
            "_shtab_equigeo; printf '%s\\n' \"${COMPREPLY[@]}\""
        )
        words = re.split(r"\s+", line)
        done = subprocess.run(
            ["bash", "--norc", "-c", code, "-", *words],
            cwd=tmp_path, capture_output=True, text=True, check=True,
        )  # fmt: skip
        return set(done.stdout.split("\n")) - {""}

    return run


def test_commands_options_values_and_files_are_completed(complete, scripts, tmp_path):
    assert complete("equigeo t") == {"train"}
    assert {"train", "evaluate", "predict", "data", "doctor"} <= complete("equigeo ")
    assert complete("equigeo train ") == TASK_NAMES
    assert complete(f"{TRAIN} --dry") == {"--dry-run"}
    assert complete("equigeo train tsp --split-i") == set()
    assert complete(f"{TRAIN} --split ") == {"folder", "16", "10", "5"}
    assert complete(f"{TRAIN} --logger ") == set(LOGGERS)
    (tmp_path / "model.ckpt").write_text("")
    for words in (f"{TRAIN} --output ", f"{TRAIN} --data ", "equigeo evaluate mo"):
        assert "model.ckpt" in complete(words)
    for shell in ("bash", "zsh"):
        text = (scripts / shell).read_text()
        assert all(name in text for name in TASK_NAMES)


def test_what_is_missing_is_one_error(refused, monkeypatch):
    assert refused("completion", "powershell").count("\n") == 1
    monkeypatch.setitem(sys.modules, "shtab", None)
    assert "completion needs shtab: pip install shtab" in refused("completion", "bash")
