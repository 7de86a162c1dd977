"""``equigeo train``."""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from functools import partial
from pathlib import Path
from typing import Any, Final

from equigeo._core.text import printable
from equigeo.cli.options import (
    RECIPE,
    RUN,
    add_machine,
    in_words_of,
    require_packages,
    use_machine,
    with_default,
)
from equigeo.cli.parser import Parser, add_command, add_verbosity
from equigeo.tasks import TASKS, Task
from equigeo.tasks.common.arguments import Argument, add_arguments, threads
from equigeo.training import Checkpoint, exit_on_sigterm, log_history, time_limit
from equigeo.training.process import training_on
from equigeo.training.trained_model import MISFITS

_STATUS: Final = (
    "0, 2 after an error, 130 after an interruption, or 143 after a request to\nterminate; after "
    "the last two the run continues with --resume."
)


def add_options(parser: Parser) -> None:
    """Add the tasks."""
    parser.explain(
        _STATUS,
        "equigeo train mesh-classification --data builtin --output runs/mine",
        "equigeo train mesh-classification --output runs/mine --resume",
        "equigeo train mesh-classification --config runs/mine/config.json --seed 1 --output runs/b",
        "equigeo train tsp --epochs 20 --dry-run",
    )  # fmt: skip
    tasks = parser.add_subparsers(title="tasks", required=True, metavar="TASK")
    for task in TASKS:
        add_command(tasks, task.name, task.help, partial(_fill, task))


def _fill(task: Task[Any, Any, Any], parser: Parser) -> None:
    parser.explain(_STATUS, *_examples(task))
    parser.set_defaults(run=partial(_run, task))
    _add_run_options(parser.add_argument_group("run"), task)
    presets = tuple(task.config_type.recipes)
    preset = Argument("--preset", "model and recipe", choices=presets)
    recipes = task.config_type.recipes.values()
    used = [
        one
        for one in (preset, *in_words_of(task, RECIPE))
        if one.name not in task.config_type.unused
        and any(recipe.knows(one.name) for recipe in recipes)
    ]
    shared = {one.name for one in (*RUN, *RECIPE)}
    data = [one for one in task.train_arguments if one.name not in shared]
    for title, arguments in (("data", data), ("recipe", used)):
        group = parser.add_argument_group(title)
        add_arguments(group, [with_default(task, argument) for argument in arguments])


def _examples(task: Task[Any, Any, Any]) -> list[str]:
    """Return example commands with the data of the task."""
    begin = f"equigeo train {task.name}"
    data = f" --data {task.example_data}" if task.example_data else ""
    last = task.config_type.presets()[-1]
    chosen = {name: getattr(last, name) for name in sorted(last.preset_choices - {"data"})}
    preset = "".join(f" --{name} {value}" for name, value in chosen.items())
    return [
        f"{begin}{data} --output runs/mine",
        f"{begin} --output runs/mine --resume",
        f"{begin}{data}{preset} --dry-run",
        f"{begin} --config runs/mine/config.json --seed 1 --output runs/other",
    ]


# Options of the configuration have no defaults here: what is absent comes from the preset, or,
# with --resume, from the run.
def _add_run_options(group: Any, task: Task[Any, Any, Any]) -> None:
    group.add_argument(
        "--output", type=Path, default=Path("runs") / task.name, metavar="DIR",
        help="folder for checkpoint, configuration and history (default: %(default)s)",
    )  # fmt: skip
    group.add_argument(
        "--resume", action="store_true", help="continue the run in --output (default: no)"
    )
    group.add_argument(
        "--overwrite", action="store_true", help="replace the run in --output (default: no)"
    )
    group.add_argument(
        "--config", type=Path, metavar="FILE",
        help="config.json of an earlier run, in place of a preset; options given beside it win "
        "(default: none)",
    )  # fmt: skip
    group.add_argument(
        "--dry-run", action="store_true",
        help="check options and data, build the model, print what would be done, and write nothing "
        "to --output (default: no)",
    )  # fmt: skip
    group.add_argument(
        "--json", action="store_true", help="print the results as JSON (default: lines)"
    )
    for argument in in_words_of(task, RUN):
        argument.add_to(group)
    add_machine(group, "auto")
    add_verbosity(group)


def _run(task: Task[Any, Any, Any], options: argparse.Namespace) -> int:
    with exit_on_sigterm(), training_on(options.device):
        return _train(task, options)


def _train(task: Task[Any, Any, Any], options: argparse.Namespace) -> int:
    logger = options.logger
    service = {} if logger in (None, "csv") else {logger: f"the logger {logger}"}
    require_packages({"lightning": "training", **service})
    for other in ("overwrite", "config"):
        if options.resume and getattr(options, other):
            raise ValueError(f"--resume and --{other} exclude each other; choose one")
    mode = {"resume": options.resume, "overwrite": options.overwrite}
    callbacks = [] if options.time_limit is None else time_limit(options.time_limit)
    if logger and not options.dry_run:
        callbacks += log_history(logger, options.output)
    config = task.configure(options.output, vars(options), file=options.config, **mode)
    folder = task.folder(options.output)
    so_far = _threads_so_far(folder.checkpoint) if options.resume else None
    use_machine(options, config.devices, so_far=so_far, is_long=not options.dry_run)
    data = task.load(config)
    about = f"{task.describe(config, data)}, {config.recipe.length}"
    if options.dry_run:
        preview = task.preview(config, options.output, data=data, **mode)
        lines = [("run", about), *preview, ("output", str(options.output))]
        _print_preview(lines, as_json=options.json)
        return 0
    if not options.quiet:
        if options.resume and not folder.is_used():
            print(f"no run in {printable(options.output)} yet, starting one", file=sys.stderr)
        print(f"{about}; output in {options.output}", file=sys.stderr)
    output = shlex.quote(str(options.output))
    again = f"continue with: equigeo train {task.name} --output {output} --resume"
    try:
        trained = task.train(
            config,
            options.output,
            data=data,
            progress=not options.quiet,
            callbacks=callbacks,
            **mode,
        )
    except (KeyboardInterrupt, SystemExit):
        if folder.has_begun(config):
            options.hint = f"; {again}"
        raise
    checkpoint = folder.checkpoint
    if options.json:
        print(json.dumps(_results(trained, checkpoint)))
    else:
        _print_results(task, trained, checkpoint, again)
    return 0


def _threads_so_far(checkpoint: Path) -> int | None:
    """Return the last number of threads of a run; training refuses what is malformed."""
    try:
        training = Checkpoint.load(checkpoint).training
        lines = [*training["history"], training]
        return threads(str([line["threads"] for line in lines if "threads" in line][-1]))
    except (argparse.ArgumentTypeError, *MISFITS):
        return None


def _results(trained: Any, checkpoint: Path) -> dict[str, Any]:
    return {
        "epochs": trained.epochs_done,
        "seconds": trained.seconds,
        "is_finished": trained.is_finished,
        "checkpoint": str(checkpoint),
        "last": trained.history[-1] if trained.history else None,
    }


def _print_results(task: Task[Any, Any, Any], trained: Any, checkpoint: Path, again: str) -> None:
    print(f"trained {trained.epochs_done} epochs in {trained.seconds:.1f} s")
    if not trained.is_finished:
        print(again)
        return
    for line in task.summarize(trained):
        print(line)
    print(f"next: equigeo evaluate {checkpoint}")


def _print_preview(lines: list[tuple[str, str]], *, as_json: bool) -> None:
    if as_json:
        print(json.dumps(dict(lines)))
        return
    for name, value in lines:
        print(f"{name:<8} {printable(value)}")
    print("nothing was written; leave out --dry-run to train")
