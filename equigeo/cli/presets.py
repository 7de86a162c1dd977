"""``equigeo presets``: settings of every preset of every task, with units."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from typing import Any

from equigeo.cli.options import RECIPE, RUN, setting, show_setting
from equigeo.cli.parser import Parser
from equigeo.tasks import TASKS, Task
from equigeo.tasks.common.arguments import Argument

_NOT_SETTINGS = {"data", "preset", "recipe", "model"}  # what is asked for, not what follows


def add_options(parser: Parser) -> None:
    """Add the task argument."""
    parser.explain(
        "0, or 2 after an error.",
        "equigeo presets",
        "equigeo presets potential",
        "equigeo presets mesh-classification --json > presets.json",
    )  # fmt: skip
    parser.add_argument(
        "task", nargs="?", choices=[task.name for task in TASKS], metavar="TASK",
        help="only of this task (default: of all)",
    )  # fmt: skip
    parser.add_argument("--json", action="store_true", help="print JSON (default: lines)")
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    tasks = [task for task in TASKS if options.task in (None, task.name)]
    found = [entry for task in tasks for entry in _presets(task)]
    if options.json:
        print(json.dumps(found, indent=1))
        return 0
    for entry in found:
        print(f"{entry['command']}\n")
        _print_settings(entry["settings"])
        if entry["model"]:
            print("\n  the model")
            _print_settings(entry["model"])
        print()
    print(
        "Options of `equigeo train` change what has one; the configuration is config.json of a run."
    )
    return 0


def _presets(task: Task[Any, Any, Any]) -> Iterator[dict[str, Any]]:
    """Describe each preset of a task, as JSON types."""
    arguments = {
        x.name: x for x in (*RUN, *RECIPE, *task.train_arguments) if x.constant is not False
    }
    for config in task.config_type.presets("data"):
        chosen = {n: getattr(config, n) for n in sorted(config.preset_choices - {"data"})}
        typed = " ".join(f"--{name} {value}" for name, value in chosen.items())
        names = [name for name in config.to_dict() if name not in _NOT_SETTINGS]
        names += [name for name in config.recipe.to_dict() if name not in config.unused]
        yield {
            "task": task.name,
            "preset": chosen,
            "command": f"equigeo train {task.name} {typed}",
            "settings": {
                name: _described(setting(config, name), arguments.get(name)) for name in names
            },
            "model": {
                name: _described(value, None) for name, value in task.model_settings(config).items()
            },
        }


def _described(value: Any, argument: Argument | None) -> dict[str, Any]:
    return {
        "value": value,
        "unit": argument.unit if argument else "",
        "option": argument.flag if argument else "",
    }


def _print_settings(settings: dict[str, dict[str, Any]]) -> None:
    values = {name: show_setting(entry["value"]) for name, entry in settings.items()}
    width = max(len(value) for value in values.values())
    for name, entry in settings.items():
        unit, option = entry["unit"], entry["option"]
        print(f"  {name:<18}  {option:<20}  {values[name]:<{width}}  {unit}".rstrip())
