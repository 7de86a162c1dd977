"""``equigeo predict``."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from equigeo.cli.parser import PROGRAM, positive
from equigeo.cli.printable import printable
from equigeo.training import TrainedClassifier, classify_file


def add_parser(commands: Any) -> None:
    """Add the command."""
    parser = commands.add_parser("predict", help="classify mesh files")
    parser.set_defaults(run=_run)
    parser.add_argument("checkpoint", type=Path, metavar="CHECKPOINT", help="model.ckpt of a run")
    parser.add_argument("files", type=Path, nargs="+", metavar="FILE", help="OBJ, OFF, PLY or STL")
    parser.add_argument(
        "--top", type=positive, default=1, metavar="K", help="number of classes to print"
    )


def _run(options: argparse.Namespace) -> int:
    trained = TrainedClassifier.load(options.checkpoint)
    failed = False
    for path in options.files:
        try:
            prediction = classify_file(trained, path, options.top)
        except ValueError as error:  # the other files are still worth classifying
            print(f"{PROGRAM}: error: {printable(error)}", file=sys.stderr)
            failed = True
            continue
        if prediction.notes:
            print(*map(printable, prediction.notes.splitlines()), sep="\n", file=sys.stderr)
        ranking = "  ".join(f"{printable(name)} {share:.1%}" for name, share in prediction.ranking)
        print(f"{printable(path)}: {ranking}")
    return 2 if failed else 0
