"""``equigeo evaluate``."""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Any, TypeAlias

from equigeo.cli.options import (
    add_machine,
    check_owner,
    load_trained,
    owners,
    require_packages,
    use_machine,
)
from equigeo.cli.parser import Parser, add_verbosity
from equigeo.tasks import TASKS, Task, find_task
from equigeo.tasks.common.arguments import Argument

_AnyTask: TypeAlias = Task[Any, Any, Any]


def add_options(parser: Parser) -> None:
    """Add the options of all tasks; the checkpoint names the task."""
    parser.explain(
        "0, or 2 after an error.",
        "equigeo evaluate runs/mine/model.ckpt",
        "equigeo evaluate runs/mine/model.ckpt --data shrec_16.tar.gz --split 10 --json r.json",
        "equigeo evaluate runs/mine/model.ckpt --json - | python -m json.tool",
    )  # fmt: skip
    parser.set_defaults(run=_run)
    parser.add_argument("checkpoint", type=Path, metavar="CHECKPOINT", help="model.ckpt of a run")
    parser.add_argument(
        "--json", type=Path, metavar="FILE",
        help="write the results there too, or print them alone where FILE is - (default: no)",
    )  # fmt: skip
    add_machine(parser, "cpu")
    add_verbosity(parser)
    found = owners(_arguments)
    for tasks, argument in found:
        if len(tasks) > 1:
            argument.add_to(parser)
    for task in TASKS:
        report = " (writes a report beside the checkpoint)" if task.writes_report else ""
        group = parser.add_argument_group(f"{task.name}{report}")
        for tasks, argument in found:
            if tasks == [task]:
                argument.add_to(group)


def _arguments(task: _AnyTask) -> tuple[Argument, ...]:
    return (*task.evaluate_arguments, *task.predict_arguments)


def _run(options: argparse.Namespace) -> int:
    task = find_task(options.checkpoint, TASKS)
    _check_options(options, task)
    if task.writes_report:
        require_packages({"plotly": "a report"})
    stem = "" if options.data is None else f"-{Path(options.data).resolve().stem}"
    checkpoint: Path = options.checkpoint
    report = checkpoint.with_name(f"report{stem}.html")
    is_printed = options.json == Path("-")
    for target in (None if is_printed else options.json, report if task.writes_report else None):
        if target is not None:
            writable = target.parent.is_dir() and os.access(target.parent, os.W_OK)
            if not writable or target.is_dir():
                raise ValueError(
                    f"{target}: cannot be written; choose a file in an existing folder"
                )
    if options.json is not None and not is_printed:
        _check_replaceable(options.json, options.checkpoint)
    device = use_machine(options)
    trained = load_trained(task, options)
    trained.to(device)
    if not (trained.is_finished or options.quiet):
        done = trained.config.recipe.progress(trained.epochs_done, trained.seconds)
        print(f"note: this run has finished {done}", file=sys.stderr)
    if options.data is not None:
        options.data = task.resolve_data(options.data)
    output = task.evaluate(trained, options)
    print(json.dumps(output.results, indent=1) if is_printed else output.text)
    if options.json is not None and not is_printed:
        output.write_results(options.json)
    if task.writes_report:
        output.write_page(report)
        print(f"report: {report}", file=sys.stderr if is_printed else sys.stdout)
    return 0


def _check_options(options: argparse.Namespace, task: _AnyTask) -> None:
    """Raise for options and values that do not apply to the task."""
    meant = {argument.name: argument for argument in _arguments(task)}
    for tasks, argument in owners(_arguments):
        check_owner(options, task, tasks, argument)
        value = getattr(options, argument.name)
        if value is None:
            continue
        choices = meant[argument.name].choices
        if choices is not None and value not in choices:
            raise ValueError(
                f"{argument.flag} must be {', '.join(choices)} for the task {task.name!r}, "
                f"got {value!r}"
            )


def _check_replaceable(path: Path, checkpoint: Path) -> None:
    """Raise if results would replace a file of the run, its page, or a file that is not JSON."""
    run = {checkpoint, *(checkpoint.with_name(f"{name}.json") for name in ("config", "history"))}
    if path.resolve() in {file.resolve() for file in run}:
        raise ValueError(f"--json {path}: is a file of the run; choose another name")
    if path.suffix == ".html" or (path.suffix != ".json" and path.exists()):
        raise ValueError(f"--json {path}: would replace a file; choose a name that ends in .json")
