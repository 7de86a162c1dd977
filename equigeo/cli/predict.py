"""``equigeo predict``."""

from __future__ import annotations

import argparse
import glob
import json
import os
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from equigeo.cli.parser import PROGRAM, add_quiet
from equigeo.tasks import TASKS, FilePrediction, find_task
from equigeo.tasks.arguments import positive
from equigeo.tasks.text import message, printable

_EPILOG = """\
Exit status: 0, or 2 if a file could not be used; the others are classified nevertheless.

examples:
  equigeo predict runs/example/model.ckpt horse.obj --top 3
  equigeo predict runs/example/model.ckpt scans/ --json
  equigeo predict runs/example/model.ckpt 'scans/**/*.stl' --view --output pages
"""


def add_parser(commands: Any) -> None:
    """Add the command."""
    kinds = "; ".join(f"{task.files} ({task.name})" for task in TASKS if task.files)
    parser = commands.add_parser(
        "predict",
        help="classify files, tell their parts, or energies and forces",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.set_defaults(run=_run)
    parser.add_argument("checkpoint", type=Path, metavar="CHECKPOINT", help="model.ckpt of a run")
    parser.add_argument(
        "files",
        type=Path,
        nargs="+",
        metavar="FILE",
        help=f"{kinds}; a folder, whose files below it are taken; or a quoted pattern",
    )
    parser.add_argument(
        "--top",
        type=positive,
        default=1,
        metavar="K",
        help="number of classes to print (default: %(default)s)",
    )
    parser.add_argument(
        "--view",
        action="store_true",
        help="write FILE's stem .html, which shows it in 3D (default: no)",
    )
    parser.add_argument(
        "--json", action="store_true", help="print one JSON object per file (default: lines)"
    )
    parser.add_argument(
        "--output", type=Path, default=Path(), metavar="DIR",
        help="where files are written, and replaced (default: the current folder)",
    )  # fmt: skip
    formats = [form for task in TASKS for form in task.formats]
    parser.add_argument(
        "--format", choices=formats, help="form of files of atoms, the first by default"
    )
    add_quiet(parser)


def _run(options: argparse.Namespace) -> int:
    task = find_task(options.checkpoint, [task for task in TASKS if task.files])
    if options.format and options.format not in task.formats:
        raise ValueError(f"--format {options.format} means nothing for the task {task.name!r}")
    form = options.format or next(iter(task.formats), "")
    files = [path for given in options.files for path in _files(given, task.suffixes)]
    if options.view or task.writes_files:
        _check_output(options.output, files)
    trained = task.trained_type.load(options.checkpoint)
    failed = False
    for path in files:
        try:
            prediction = task.predict(trained, path, options.top, view=options.view)
        except ValueError as error:  # the other files are still worth classifying
            print(f"{PROGRAM}: error: {message(error)}", file=sys.stderr)
            failed = True
            continue
        if prediction.notes and not options.quiet:
            print(*map(printable, prediction.notes.splitlines()), sep="\n", file=sys.stderr)
        if options.json:
            paths = list(map(str, prediction.write(options.output, form)))
            print(json.dumps(_described(prediction, paths)))
            continue
        ranking = printable(prediction.summary) + "  ".join(
            f"{printable(name)} {share:.1%}" for name, share in prediction.ranking
        )
        if prediction.remark:
            ranking += f"  ({printable(prediction.remark)})"
        written = ", ".join(map(printable, prediction.write(options.output, form)))
        print(f"{printable(path)}: {ranking}{written and f' -> {written}'}")
    return 2 if failed else 0


def _files(given: Path, suffixes: tuple[str, ...]) -> list[Path]:
    """Files that a name stands for: itself, those below a folder, or those that fit a pattern."""
    if given.is_dir():
        found = [path for path in given.rglob("*") if path.suffix.lower() in suffixes]
        what = f"has no file {', '.join(suffixes)} below it"
    elif given.exists() or not glob.has_magic(str(given)):
        return [given]
    else:
        found = [Path(path) for path in glob.glob(str(given), recursive=True)]
        what = "no file has such a name"
    found = [path for path in found if path.is_file()]
    if not found:
        raise ValueError(f"{given}: {what}")
    return sorted(found)


def _described(prediction: FilePrediction, written: list[str]) -> dict[str, Any]:
    return {
        "file": str(prediction.path),
        "ranking": [[name, share] for name, share in prediction.ranking],
        "summary": prediction.summary,
        "remark": prediction.remark,
        "notes": prediction.notes,
        "written": written,
    }


def _check_output(folder: Path, files: list[Path]) -> None:
    """See before any work that every file has a place of its own."""
    if not folder.is_dir() or not os.access(folder, os.W_OK):
        raise ValueError(f"--output {folder}: cannot be written; choose an existing folder")
    stem, number = Counter(path.stem for path in files).most_common(1)[0]
    if number > 1:
        raise ValueError(
            f"{number} of the files are called {stem!r} and would be written to one place; "
            "predict them one by one, each with its own --output"
        )
