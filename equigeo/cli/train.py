"""``equigeo train``."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from dataclasses import MISSING, fields, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import torch

from equigeo.cli.parser import add_quiet
from equigeo.cli.require_packages import require_packages
from equigeo.tasks import LOGGERS, TASKS, Task, exit_on_sigterm, log_history, time_limit
from equigeo.tasks.arguments import Argument, natural, number, numbers, positive, threads
from equigeo.tasks.text import printable

_RECIPE: Final = (
    Argument("--epochs", "passes over the training samples", positive, metavar="N"),
    Argument("--minutes", "end of the run by the clock, in place of epochs", number, metavar="X"),
    Argument("--batch-size", "samples of a step", positive, metavar="N"),
    Argument(
        "--lr", "learning rate, or its peak, per step", number, metavar="X", dest="learning_rate"
    ),
    Argument("--warmup", "steps over which the rate of warm_cosine rises", natural, metavar="N"),
    Argument("--clip-norm", "largest norm of the gradient; 0: any", number, metavar="X"),
    Argument("--weight-decay", "decay of the weights", number, metavar="X"),
    Argument(
        "--label-smoothing",
        "share of the target spread over all classes, 0 to 1",
        number,
        metavar="X",
    ),
    Argument("--logit-adjustment", "1: rare classes count alike", number, metavar="X"),
    Argument(
        "--jitter",
        "noise on vertices, in mean edge lengths, or on points, in half sizes of the cloud",
        number,
        metavar="X",
    ),
    Argument(
        "--stretch", "stretch along random axes, as deviation of its logarithm", number, metavar="X"
    ),
    Argument(
        "--resolutions",
        "draw meshes with so many times their faces, too",
        numbers,
        metavar="X,Y",
    ),
    Argument(
        "--ema-decay",
        "decay per step of the running average of weights; 0: none",
        number,
        metavar="X",
    ),
    Argument("--update-bn", "estimate BatchNorm statistics with the final weights", constant=True),
    Argument(
        "--no-update-bn",
        "keep the running statistics of training",
        constant=False,
        dest="update_bn",
    ),
)
_RUN: Final = (
    Argument(
        "--logger",
        "log every epoch to log.csv or tensorboard in --output too (default: no)",
        choices=LOGGERS,
    ),
    Argument(
        "--time-limit",
        "stop after so many minutes, with a checkpoint to --resume from (default: none)",
        number,
        metavar="MINUTES",
    ),
    Argument("--seed", "seed of everything random (default: 0)", natural),
    Argument("--devices", "processes (default: 1)", positive, metavar="N"),
    Argument("--threads", "threads of each process (default: one per core)", threads, metavar="N"),
    Argument(
        "--evaluate-every",
        "epochs between evaluations; 0: after the last only (default)",
        natural,
        metavar="N",
    ),
)
_EPILOG: Final = """\
Exit status: 0, 2 after an error, 130 after an interruption, or 143 after a request to terminate;
after the last two the run continues with --resume.

examples:
  equigeo train mesh-classification --data builtin --output runs/mine
  equigeo train mesh-classification --output runs/mine --resume
  equigeo train mesh-classification --config runs/mine/config.json --seed 1 --output runs/other
  equigeo train tsp --epochs 20 --dry-run
"""


def add_parser(commands: Any) -> None:
    """Add the command and its tasks."""
    parser = commands.add_parser(
        "train",
        help="train a model",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    tasks = parser.add_subparsers(title="tasks", required=True, metavar="TASK")
    for task in TASKS:
        options = tasks.add_parser(task.name, help=task.help)
        options.set_defaults(run=partial(_run, task))
        _add_run_options(options.add_argument_group("run"), task)
        data = options.add_argument_group("data")
        for argument in task.train_arguments:
            _with_default(task, argument).add_to(data)
        recipe = options.add_argument_group("recipe")
        presets = tuple(task.config_type.recipes)
        preset = Argument("--preset", "model and recipe", choices=presets)
        for argument in (preset, *_RECIPE):
            if argument.name not in task.config_type.unused:
                _with_default(task, argument).add_to(recipe)


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
        help="check options and data, build the model, say what would be done, and write nothing "
        "to --output (default: no)",
    )  # fmt: skip
    add_quiet(group)
    for argument in _RUN:
        argument.add_to(group)


def _with_default(task: Task[Any, Any, Any], argument: Argument) -> Argument:
    """Add to the help what holds where the option is not given, of each preset."""
    if "default" in argument.help:
        return argument
    own = {field.name: field.default for field in fields(task.config_type)}
    if argument.name in own:
        value = own[argument.name]
        text = f"default: {_shown(value, argument)}"
        text = "needed for a new run" if value is MISSING else text
    else:
        recipes = task.config_type.recipes.items()
        values = {name: _shown(getattr(x, argument.name), argument) for name, x in recipes}
        first = values.pop(str(own["preset"]))
        others = [f"{name}: {value}" for name, value in values.items() if value != first]
        text = "; ".join([f"default: {first}", *others])
    return replace(argument, help=f"{argument.help} ({text})")


def _shown(value: Any, argument: Argument) -> str:
    if argument.constant is not None:
        return "yes" if value == argument.constant else "no"
    if isinstance(value, tuple):
        return ",".join(map(str, value)) or "none"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _run(task: Task[Any, Any, Any], options: argparse.Namespace) -> int:
    with exit_on_sigterm():
        return _train(task, options)


def _train(task: Task[Any, Any, Any], options: argparse.Namespace) -> int:
    require_packages("training", "lightning")
    for other in ("overwrite", "config"):
        if options.resume and getattr(options, other):
            raise ValueError(f"--resume and --{other} exclude each other; choose one")
    mode = {"resume": options.resume, "overwrite": options.overwrite}
    callbacks = [] if options.time_limit is None else time_limit(options.time_limit)
    if options.logger:
        callbacks += log_history(options.logger, options.output)
    config = task.configure(options.output, vars(options), file=options.config, **mode)
    if options.threads:
        os.environ["OMP_NUM_THREADS"] = str(options.threads)  # for the processes of --devices
        torch.set_num_threads(options.threads)
    data = task.load(config)
    about = f"{task.describe(config, data)}, {config.recipe.length}"
    if options.dry_run:
        preview = task.preview(config, options.output, data=data, **mode)
        _print_preview([("run", about), *preview.lines(), ("output", str(options.output))])
        return 0
    if not options.quiet:
        print(f"{about}; output in {options.output}", file=sys.stderr)
    output = shlex.quote(str(options.output))
    again = f"continue with: equigeo train {task.name} --output {output} --resume"
    options.hint = f"; {again}"
    trained = task.train(
        config,
        options.output,
        data=data,
        progress=not options.quiet,
        callbacks=callbacks,
        **mode,
    )
    print(f"trained {trained.epochs_done} epochs in {trained.seconds:.1f} s")
    if trained.is_finished:
        for line in task.summarize(trained):
            print(line)
        print(f"next: equigeo evaluate {task.folder(options.output).checkpoint}")
    else:
        print(again)
    return 0


def _print_preview(lines: list[tuple[str, str]]) -> None:
    for name, value in lines:
        print(f"{name:<8} {printable(value)}")
    print("nothing was written; leave out --dry-run to train")
