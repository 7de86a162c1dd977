"""``equigeo evaluate``."""

from __future__ import annotations

import argparse
import json
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

from equigeo.cli.options import add_machine, require_packages, use_machine
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
    owners = _owners()
    for tasks, argument in owners:
        if len(tasks) > 1:
            argument.add_to(parser)
    for task in TASKS:
        report = " (writes a report beside the checkpoint)" if task.writes_report else ""
        group = parser.add_argument_group(f"{task.name}{report}")
        for tasks, argument in owners:
            if tasks == [task]:
                argument.add_to(group)


def _owners() -> list[tuple[list[_AnyTask], Argument]]:
    """Return options with the tasks that have them; allowed values may depend on the task."""
    found: dict[str, tuple[list[_AnyTask], Argument]] = {}
    for task in TASKS:
        for argument in task.evaluate_arguments:
            tasks, known = found.get(argument.name, ([], argument))
            found[argument.name] = ([*tasks, task], _union(known, argument))
    return list(found.values())


def _union(one: Argument, other: Argument) -> Argument:
    choices = None if one.choices is None else (*one.choices, *(other.choices or ()))
    texts = one.help if other.help in one.help else f"{one.help}; {other.help}"
    return replace(one, choices=choices and tuple(dict.fromkeys(choices)), help=texts)


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
    trained = task.trained_type.load(options.checkpoint)
    trained.model.to(device)
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
    meant = {argument.name: argument for argument in task.evaluate_arguments}
    for tasks, argument in _owners():
        value = getattr(options, argument.name)
        if value is None:
            continue
        if argument.name not in meant:
            names = " or ".join(repr(owner.name) for owner in tasks)
            raise ValueError(
                f"{argument.flag} is for checkpoints of the task {names}, "
                f"and {options.checkpoint} is for {task.name!r}"
            )
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
