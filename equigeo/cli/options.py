"""Options of ``equigeo train`` that all tasks share, with their defaults."""

from __future__ import annotations

import argparse
import importlib.util
import math
import os
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, TypeAlias

import torch

from equigeo.tasks import TASKS, Task
from equigeo.tasks.common.arguments import Argument, natural, number, numbers, positive, threads
from equigeo.training.loop.session import LOGGERS

_AnyTask: TypeAlias = Task[Any, Any, Any]
VERSIONS: Final = {"lightning": ">=2.6,<3", "plotly": ">=5.20", "platformdirs": ">=3"}
"""As in pyproject.toml."""


RECIPE: Final = (
    Argument(
        "--epochs", "passes over the training samples", positive, metavar="N", unit="passes"
    ),
    Argument(
        "--minutes", "end of the run by the clock, in place of epochs", number, metavar="X",
        unit="minutes",
    ),
    Argument("--batch-size", "samples of a step", positive, metavar="N", unit="samples"),
    Argument(
        "--lr", "learning rate, or its peak, per step", number, metavar="X", dest="learning_rate",
        unit="per step",
    ),
    Argument(
        "--warmup", "steps over which the rate of warm_cosine rises", natural, metavar="N",
        unit="steps",
    ),
    Argument(
        "--clip-norm", "largest norm of the gradient; 0: any", number, metavar="X", unit="norm"
    ),
    Argument(
        "--weight-decay", "decay of the weights, per step and rate", number, metavar="X",
        unit="per step and rate",
    ),
    Argument(
        "--label-smoothing", "share of the target spread over all classes, 0 to 1", number,
        metavar="X", unit="share",
    ),
    Argument(
        "--logit-adjustment", "factor of the logarithms of the classes' shares; 1: rare classes"
        " count alike", number, metavar="X", unit="factor",
    ),
    Argument(
        "--jitter", "deviation of the noise on vertices or points", number, metavar="X",
        unit="mean edge lengths of a mesh, half sizes of a cloud",
    ),
    Argument(
        "--stretch", "stretch along random axes, as deviation of its logarithm", number,
        metavar="X", unit="logarithm",
    ),
    Argument(
        "--resample", "share of clouds whose points are thinned out, cut or given outliers", number,
        metavar="X", unit="share",
    ),
    Argument(
        "--resolutions", "draw also from meshes with X and Y times their faces", numbers,
        metavar="X,Y", unit="times",
    ),
    Argument(
        "--damaged", "draw also from N versions of every mesh with random holes, noise and debris",
        natural, metavar="N", unit="per mesh",
    ),
    Argument(
        "--ema-decay", "decay per step of the running average of weights; 0: none", number,
        metavar="X", unit="per step",
    ),
    Argument("--update-bn", "estimate BatchNorm statistics with the final weights", constant=True),
    Argument(
        "--no-update-bn", "keep the running statistics of training", constant=False,
        dest="update_bn",
    ),
)  # fmt: skip
"""How weights are optimized; fields of ``equigeo.training.Recipe``."""
RUN: Final = (
    Argument(
        "--logger",
        "log every epoch to log.csv or tensorboard in --output, or to wandb or mlflow (default:"
        " no)", choices=LOGGERS,
    ),
    Argument(
        "--time-limit",
        "stop after MINUTES minutes, with a checkpoint to --resume from (default: none)", number,
        metavar="MINUTES", unit="minutes",
    ),
    Argument("--seed", "seed of everything random (default: 0)", natural, metavar="N"),
    Argument("--devices", "processes (default: 1)", positive, metavar="N", unit="processes"),
    Argument(
        "--nodes", "machines with as many processes each (default: 1)", positive, metavar="N",
        unit="machines",
    ),
    Argument(
        "--evaluate-every", "epochs between evaluations; 0: after the last only (default)",
        natural, metavar="N", unit="epochs",
    ),
)  # fmt: skip
"""What is the same for every recipe."""


def in_words_of(task: _AnyTask, arguments: Iterable[Argument]) -> list[Argument]:
    """Return shared options, replaced by those that a task declares under the same names."""
    own = {argument.name: argument for argument in task.train_arguments}
    return [own.get(argument.name, argument) for argument in arguments]


def with_default(task: Task[Any, Any, Any], argument: Argument) -> Argument:
    """Append the default of each preset to the help of an option."""
    if "default" in argument.help:
        return argument
    presets = task.config_type.presets()
    if argument.name in task.config_type.preset_choices:  # which presets there are follows from it
        presets = presets[:1]
    first = setting(presets[0], argument.name)
    values: dict[str, list[str]] = {}
    for config in presets:
        value = setting(config, argument.name)
        if value != first:
            values.setdefault(show_setting(value, argument), []).append(config.preset_name)
    text = f"default: {show_setting(first, argument)}"
    if argument.name == "data":
        text = "needed for a new run"
    others = [f"{', '.join(dict.fromkeys(names))}: {value}" for value, names in values.items()]
    return replace(argument, help=f"{argument.help} ({'; '.join([text, *others])})")


def setting(config: Any, name: str) -> Any:
    """Return an entry of a configuration, or of its recipe."""
    return getattr(config, name) if hasattr(config, name) else getattr(config.recipe, name)


def show_setting(value: Any, argument: Argument | None = None) -> str:
    """Format a value as it is typed on the command line."""
    if argument is not None and argument.constant is not None:
        return "yes" if value == argument.constant else "no"
    if isinstance(value, (tuple, list)):
        return ",".join(map(show_setting, value)) or "none"
    if isinstance(value, bool) or value is None or value == "":
        return {True: "yes", False: "no"}.get(value, "none")
    return f"{value:g}" if isinstance(value, float) else str(value)


def owners(
    arguments: Callable[[_AnyTask], Iterable[Argument]],
) -> list[tuple[list[_AnyTask], Argument]]:
    """Return options with the tasks that have them; allowed values may depend on the task."""
    found: dict[str, tuple[list[_AnyTask], Argument]] = {}
    for task in TASKS:
        for argument in arguments(task):
            tasks, known = found.get(argument.name, ([], argument))
            found[argument.name] = ([*tasks, task], _union(known, argument))
    return list(found.values())


def _union(one: Argument, other: Argument) -> Argument:
    choices = None if one.choices is None else (*one.choices, *(other.choices or ()))
    texts = one.help if other.help in one.help else f"{one.help}; {other.help}"
    return replace(one, choices=choices and tuple(dict.fromkeys(choices)), help=texts)


def load_trained(task: _AnyTask, options: argparse.Namespace) -> Any:
    """Load a checkpoint, with the fields of its configuration that options replace."""
    trained = task.trained_type.load(options.checkpoint)
    given = {argument.name: getattr(options, argument.name) for argument in task.predict_arguments}
    given = {name: value for name, value in given.items() if value is not None}
    return replace(trained, config=replace(trained.config, **given)) if given else trained


def check_owner(
    options: argparse.Namespace, task: _AnyTask, tasks: list[_AnyTask], argument: Argument
) -> None:
    """Raise if an option is given that is only for checkpoints of other tasks."""
    if getattr(options, argument.name) is not None and task not in tasks:
        names = " or ".join(repr(owner.name) for owner in tasks)
        raise ValueError(
            f"{argument.flag} is for checkpoints of the task {names}, "
            f"and {options.checkpoint} is for {task.name!r}"
        )


def add_machine(parser: Any, device: str) -> None:
    """Add ``--device``, with its default, and ``--threads`` to a parser or a group."""
    parser.add_argument(
        "--device",
        choices=("auto", "cpu", "cuda"),
        default=device,
        help=f"what computes; auto: a GPU where there is one (default: {device})",
    )
    Argument(
        "--threads", "of each process (default: OMP_NUM_THREADS, or one per free core)", threads,
        metavar="N",
    ).add_to(parser)  # fmt: skip


def use_machine(
    options: argparse.Namespace,
    processes: int = 1,
    *,
    so_far: int | None = None,  # threads of each process of a run to resume
    is_long: bool = True,  # whether a choice by the load is worth its time
) -> torch.device:
    """Set the number of threads, until ``options.undo`` is closed, and return the device."""
    has_card = torch.cuda.is_available()
    if options.device == "cuda" and not has_card:
        raise ValueError(
            "--device cuda: PyTorch finds no GPU here; leave the option out, or install a PyTorch "
            "with CUDA and its driver"
        )
    device = torch.device("cuda" if has_card and options.device != "cpu" else "cpu")
    most, number, reason = torch.get_num_threads(), options.threads, ""
    options.undo.callback(_restore, most, os.environ.get("OMP_NUM_THREADS"))
    if number is None and os.environ.keys().isdisjoint(("OMP_NUM_THREADS", "MKL_NUM_THREADS")):
        if so_far is not None:
            number, reason = so_far, "the run to resume has used as many"
        elif is_long and device.type == "cpu":
            free, reason = free_threads(most)
            torch.set_num_threads(free)
            number = max(1, free // processes) if free < most else None
    if number is not None:
        os.environ["OMP_NUM_THREADS"] = str(number)  # for processes that are started
        torch.set_num_threads(number)
        if reason and number != max(1, most // processes) and not options.quiet:
            each = " in each process" if processes > 1 else ""
            print(
                f"note: {number} of {most} threads{each}, because {reason}; "
                "--threads N fixes the number, on which results depend in rounding",
                file=sys.stderr,
            )
    return device


def _restore(threads: int, variable: str | None) -> None:
    if torch.get_num_threads() != threads:
        torch.set_num_threads(threads)
    os.environ.pop("OMP_NUM_THREADS", None)
    if variable is not None:
        os.environ["OMP_NUM_THREADS"] = variable


_QUOTA: Final = Path("/sys/fs/cgroup/cpu.max")  # of a container
_LOSS: Final = 1.3  # of time by more threads: 0.8 to 1.1 on free cores, 1.6 and more on busy ones


def free_threads(most: int) -> tuple[int, str]:
    """Return the number of threads, halved while small ops lose by them, and why if reduced."""
    number, reason = most, ""
    try:
        quota, period = map(int, _QUOTA.read_text().split())
        if math.ceil(quota / period) < most:
            number, reason = math.ceil(quota / period), "the container has a CPU quota"
    except (OSError, ValueError):
        pass  # no Linux, or no quota
    alone = _seconds(1) if number > 1 else 0.0
    while number > 1 and _seconds(number) > _LOSS * alone:
        number, reason = number // 2, "other programs use the cores"
    return number, reason


def _seconds(number: int) -> float:
    """Return the seconds of small ops on some threads, in the manner of a training step."""
    torch.set_num_threads(number)
    rows, weight = torch.ones(256, 64), torch.ones(64, 64)
    large, small = torch.ones(1 << 17), torch.ones(64)

    def work() -> None:
        large.add_((rows @ weight)[0, 0])
        for _ in range(8):  # on one thread
            small.add_(1)

    work()
    begun, count = time.perf_counter(), 0
    while (taken := time.perf_counter() - begun) < 0.1:  # busy cores stall some threads after 50 ms
        work()
        count += 1
    return taken / max(1, count)


def require_packages(needs: Mapping[str, str]) -> None:
    """Raise if packages, given with reasons, are missing; name the pip command for all missing."""
    known = dict.fromkeys([*VERSIONS, *needs])
    missing = [name for name in known if importlib.util.find_spec(name) is None]
    if missing and not needs.keys().isdisjoint(missing):
        typed = " ".join(f"'{n}{VERSIONS[n]}'" if n in VERSIONS else n for n in missing)
        needed = " and ".join(f"{needs[name]} needs {name}" for name in missing if name in needs)
        others = [name for name in missing if name not in needs]
        more = f" (and other commands want {', '.join(others)})" if others else ""
        raise ImportError(f"{needed}{more}: pip install {typed}")
