"""``equigeo predict``."""

from __future__ import annotations

import argparse
import glob
import json
import os
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from equigeo._core.text import message, printable
from equigeo.cli.options import add_machine, check_owner, load_trained, owners, use_machine
from equigeo.cli.parser import PROGRAM, Parser, add_verbosity
from equigeo.tasks import TASKS, FilePrediction, Task, find_task
from equigeo.tasks.common.arguments import Argument, positive
from equigeo.tasks.task import TABLES, write_predictions


def add_options(parser: Parser) -> None:
    """Add files and options."""
    parser.explain(
        "0, or 2 if a file could not be used; the others are done nevertheless.",
        "equigeo predict runs/example/model.ckpt horse.obj --top 3",
        "equigeo predict runs/example/model.ckpt scans/ --results scans.csv",
        "equigeo predict runs/example/model.ckpt 'scans/**/*.stl' --view --output pages",
        "equigeo predict runs/example/model.ckpt scans/ --dry-run",
    )  # fmt: skip
    parser.set_defaults(run=_run)
    kinds = "; ".join(f"{task.files} ({task.name})" for task in TASKS if task.files)
    parser.add_argument("checkpoint", type=Path, metavar="CHECKPOINT", help="model.ckpt of a run")
    parser.add_argument(
        "files", nargs="+", type=Path, metavar="FILE",
        help=f"{kinds}; a folder, whose files below it are taken; or a quoted pattern",
    )  # fmt: skip
    parser.add_argument(
        "--dry-run", action="store_true",
        help="check checkpoint and options, list the files, and write nothing (default: no)",
    )  # fmt: skip
    _add_output_options(parser)
    for _, argument in owners(_arguments):
        argument.add_to(parser)
    add_machine(parser, "cpu")
    add_verbosity(parser)
    parser.takes_more = "files"


def _arguments(task: Task[Any, Any, Any]) -> tuple[Argument, ...]:
    return task.predict_arguments


def _add_output_options(parser: argparse.ArgumentParser) -> None:
    Argument(
        "--top", "number of classes to print (default: 1)", positive, metavar="K", unit="classes"
    ).add_to(parser)
    parser.set_defaults(top=1)
    parser.add_argument(
        "--view", action="store_true",
        help="write FILE's stem .html, which shows it in 3D (default: no)",
    )  # fmt: skip
    parser.add_argument(
        "--json", action="store_true", help="print one JSON object per file (default: lines)"
    )
    parser.add_argument(
        "--output", type=Path, default=Path(), metavar="DIR",
        help="where files are written, and replaced; made where it is missing "
        "(default: the current folder)",
    )  # fmt: skip
    parser.add_argument(
        "--results", type=Path, metavar="FILE",
        help="write what is printed to a file .csv or .jsonl instead, complete or not at all"
        " (default: no)",
    )  # fmt: skip
    formats = [form for task in TASKS for form in task.formats]
    parser.add_argument(
        "--format", choices=formats, help=f"form of files of atoms (default: {formats[0]})"
    )


def _run(options: argparse.Namespace) -> int:
    task = find_task(options.checkpoint, [task for task in TASKS if task.files])
    if options.format and options.format not in task.formats:
        raise ValueError(f"--format {options.format} means nothing for the task {task.name!r}")
    files = [path for given in options.files for path in _files(Path(given), task)]
    if options.results is not None:
        _check_results(options.results)
    for tasks, argument in owners(_arguments):
        check_owner(options, task, tasks, argument)
    device = use_machine(options, is_long=not options.dry_run)
    trained = load_trained(task, options)
    writes = options.view or task.writes(trained)
    if writes:
        _check_output(options.output, files, task.written)
    trained.to(device)
    if options.dry_run:
        _print_plan(options, task, files, writes=writes)
        return 0
    failures: list[str] = []
    found = _predict(options, task, trained, files, failures)
    if options.results is None:
        for prediction, paths in found:
            is_json = options.json
            print(json.dumps(prediction.to_dict(paths)) if is_json else _line(prediction, paths))
    else:
        rows = [prediction.to_dict(paths) for prediction, paths in found]
        write_predictions(options.results, rows)
        if not options.quiet:
            print(f"{len(rows)} predictions in {printable(options.results)}", file=sys.stderr)
    return 2 if failures else 0


def _predict(
    options: argparse.Namespace,
    task: Task[Any, Any, Any],
    trained: Any,
    files: list[Path],
    failures: list[str],
) -> Iterator[tuple[FilePrediction, list[str]]]:
    """Return the predictions for each file and the written files."""
    form = options.format or next(iter(task.formats), "")
    for path in files:
        try:
            prediction = task.predict(trained, path, options.top, view=options.view)
        except ValueError as error:  # the other files are still worth classifying
            print(f"{PROGRAM}: error: {message(error)}", file=sys.stderr)
            failures.append(str(path))
            continue
        if prediction.notes and not options.quiet:
            print(*map(printable, prediction.notes.splitlines()), sep="\n", file=sys.stderr)
        if prediction.files:
            options.output.mkdir(parents=True, exist_ok=True)
        yield prediction, list(map(str, prediction.write(options.output, form)))


def _line(prediction: FilePrediction, written: list[str]) -> str:
    ranking = printable(prediction.summary) + "  ".join(
        f"{printable(name)} {share:.1%}" for name, share in prediction.ranking
    )
    if prediction.remark:
        ranking += f"  ({printable(prediction.remark)})"
    paths = ", ".join(map(printable, written))
    return f"{printable(prediction.path)}: {ranking}{paths and f' -> {paths}'}"


def _print_plan(
    options: argparse.Namespace, task: Task[Any, Any, Any], files: list[Path], *, writes: bool
) -> None:
    """Print the planned predictions."""
    if options.json:
        names = [str(path) for path in files]
        print(json.dumps({"checkpoint": str(options.checkpoint), "files": names}, indent=1))
        return
    print(f"model    {printable(options.checkpoint)}, {task.name}")
    for path in files:
        print(f"file     {printable(path)}")
    if writes:
        print(f"output   {printable(options.output)}")
    if options.results is not None:
        print(f"results  {printable(options.results)}")
    print(f"{len(files)} files; nothing was read or written: leave out --dry-run to predict")


def _files(given: Path, task: Task[Any, Any, Any]) -> list[Path]:
    """Return the files of a name, without the output of earlier predictions."""
    if given.is_dir():
        found = [path for path in given.rglob("*") if path.suffix.lower() in task.suffixes]
        what = f"has no file {', '.join(task.suffixes)} below it"
    elif given.exists() or not glob.has_magic(str(given)):
        return [given]
    else:
        found = [Path(path) for path in glob.glob(str(given), recursive=True)]
        what = "no file has such a name"
    found = [path for path in found if path.is_file()]
    if found and all(path.name.endswith(task.written) for path in found):
        what = f"has no files but those that predict writes, {', '.join(task.written)}"
    found = [path for path in found if not path.name.endswith(task.written)]
    if not found:
        raise ValueError(f"{given}: {what}")
    return sorted(found)


def _check_output(folder: Path, files: list[Path], endings: tuple[str, ...]) -> None:
    """Raise before any work unless output paths are distinct and differ from the inputs."""
    existing = folder
    while not existing.exists() and existing != existing.parent:
        existing = existing.parent
    if not existing.is_dir() or not os.access(existing, os.W_OK | os.X_OK):
        raise ValueError(f"--output {folder}: cannot be written; choose another folder")
    stem, number = Counter(path.stem for path in files).most_common(1)[0]
    if number > 1:
        raise ValueError(
            f"{number} of the files are called {stem!r} and would be written to one place; "
            "predict them one by one, each with its own --output"
        )
    inputs = {path.resolve() for path in files}
    for path in files:
        for ending in endings:
            written = folder / f"{path.stem}{ending}"
            if written.resolve() in inputs:
                raise ValueError(
                    f"{written}: is to be predicted, and what is found of {path} would be written "
                    "over it; choose another --output"
                )


def _check_results(path: Path) -> None:
    """Raise before any work unless the file can be written in a known format."""
    if path.suffix.lower() not in TABLES:
        raise ValueError(f"--results {path}: expected a name with {' or '.join(TABLES)} at its end")
    if path.is_dir() or not path.parent.is_dir() or not os.access(path.parent, os.W_OK):
        raise ValueError(f"--results {path}: cannot be written; choose an existing folder")
