"""``equigeo presets``: every setting of every preset, as a run would have it."""

from __future__ import annotations

import json

from equigeo.cli import main
from equigeo.cli.recipe_options import RECIPE, RUN, setting
from equigeo.mesh import PrimalDualClassifier
from equigeo.tasks import TASKS
from equigeo.tasks.arguments import natural, number, numbers, positive, threads

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
    """What is typed as it is shown has the recipe that is shown."""
    for entry in described(capsys, "tsp"):
        words = entry["command"].split()[1:]
        output = ["--output", str(tmp_path / "run")]
        assert main([*words, "--instances", "8", "--cities", "4", "--dry-run", *output]) == 0
        assert f"{entry['settings']['epochs']['value']} epochs" in capsys.readouterr().out


def test_lines_have_option_value_and_unit(capsys):
    assert main(["presets", "potential"]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["equigeo", "train", "potential", "--preset", "crystal"] in lines
    assert lines.count(["cutoff", "--cutoff", "5", "angstrom"]) == 4
    assert lines.count(["forces_weight", "--forces-weight", "0", "of", "(eV/A)^2"]) == 1


def test_another_task_is_refused(capsys):
    assert main(["presets", "paper"]) == 2
    assert "choose from" in capsys.readouterr().err


def test_numbers_have_units():
    tasks = [(task.name, (*task.train_arguments, *task.evaluate_arguments)) for task in TASKS]
    for name, options in [("all", (*RUN, *RECIPE)), *tasks]:
        for option in options:
            is_number = option.constant is None and option.type in NUMBERS
            has_unit = is_number and option.name not in NO_UNIT
            assert bool(option.unit) == has_unit, f"{name} {option.flag}"
            assert option.unit in option.text, f"{name} {option.flag}"
