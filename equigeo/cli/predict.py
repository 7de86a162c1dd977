"""``equigeo predict``.

On its own because every command has its module.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from equigeo.cli.parser import PROGRAM
from equigeo.tasks import TASKS, find_task
from equigeo.tasks.arguments import positive
from equigeo.tasks.text import message, printable


def add_parser(commands: Any) -> None:
    """Add the command."""
    kinds = "; ".join(f"{task.files} ({task.name})" for task in TASKS if task.files)
    parser = commands.add_parser("predict", help="classify files")
    parser.set_defaults(run=_run)
    parser.add_argument("checkpoint", type=Path, metavar="CHECKPOINT", help="model.ckpt of a run")
    parser.add_argument("files", type=Path, nargs="+", metavar="FILE", help=kinds)
    parser.add_argument(
        "--top", type=positive, default=1, metavar="K", help="number of classes to print"
    )


def _run(options: argparse.Namespace) -> int:
    task = find_task(options.checkpoint, [task for task in TASKS if task.files])
    trained = task.trained_type.load(options.checkpoint)
    failed = False
    for path in options.files:
        try:
            prediction = task.predict(trained, path, options.top)
        except ValueError as error:  # the other files are still worth classifying
            print(f"{PROGRAM}: error: {message(error)}", file=sys.stderr)
            failed = True
            continue
        if prediction.notes:
            print(*map(printable, prediction.notes.splitlines()), sep="\n", file=sys.stderr)
        ranking = "  ".join(f"{printable(name)} {share:.1%}" for name, share in prediction.ranking)
        print(f"{printable(path)}: {ranking}")
    return 2 if failed else 0
