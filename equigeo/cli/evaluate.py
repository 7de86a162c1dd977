"""``equigeo evaluate``."""

from __future__ import annotations

import argparse
import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

from equigeo.cli.parser import natural
from equigeo.cli.printable import printable
from equigeo.training import (
    BUILTIN,
    Evaluation,
    TrainConfig,
    TrainedClassifier,
    divide,
    evaluate_classifier,
    load_data,
    summarize_run,
)
from equigeo.training.atomic_write import atomic_write


def add_parser(commands: Any) -> None:
    """Add the command."""
    parser = commands.add_parser("evaluate", help="measure accuracy and invariance; write a report")
    parser.set_defaults(run=_run)
    parser.add_argument("checkpoint", type=Path, metavar="CHECKPOINT", help="model.ckpt of a run")
    parser.add_argument(
        "--data", metavar="builtin|DIR|ARCHIVE", help="by default what the model was trained on"
    )
    parser.add_argument(
        "--split", choices=("folder", "16", "10"),
        help="whose test part to evaluate; by default that of the training",
    )  # fmt: skip
    parser.add_argument("--split-index", type=natural, metavar="I", help="number of the draw")
    parser.add_argument("--seed", type=natural, default=0, help="seed of the copies (default: 0)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the results there too")


def _run(options: argparse.Namespace) -> int:
    from equigeo.report import render_report  # plotly, which the other commands do without

    trained = TrainedClassifier.load(options.checkpoint)
    report = options.checkpoint.with_name("report.html")
    for target in filter(None, (report, options.json)):
        _check_target(target)
    config = _configure(options, trained.config)
    dataset = load_data(config.data)
    _, test = divide(dataset, config)
    evaluation = evaluate_classifier(trained, dataset, test, options.seed)
    _print(evaluation)
    used = replace(trained, config=config)
    results = summarize_run(used, evaluation, dataset, options.command_line)
    page = render_report(results)
    atomic_write(report, lambda file: file.write(page.encode()))
    if options.json:
        text = json.dumps(evaluation.to_dict(), indent=1) + "\n"
        atomic_write(options.json, lambda file: file.write(text.encode()))
    print(f"report: {report}")
    return 0


def _check_target(path: Path) -> None:
    """See early that a file can be written, without touching it.

    Raises
    ------
    ValueError
        If its folder does not exist or is not writable.
    """
    writable = path.parent.is_dir() and os.access(path.parent, os.W_OK)
    if not writable or path.is_dir():
        raise ValueError(f"{path}: cannot be written; choose a file in an existing folder")


def _configure(options: argparse.Namespace, config: TrainConfig) -> TrainConfig:
    changes: dict[str, Any] = {}
    if options.data is not None:
        is_path = options.data != BUILTIN
        changes["data"] = str(Path(options.data).resolve()) if is_path else options.data
    if options.split is not None:
        changes |= {"split": options.split, "split_index": 0, "holdout": 0}
    if options.split_index is not None:
        changes["split_index"] = options.split_index
    return replace(config, **changes)


def _print(evaluation: Evaluation) -> None:
    names = [printable(name) for name in evaluation.classes]
    width = max(5, *map(len, names))
    print(f"{'class':<{width}}  correct  meshes  accuracy")
    for i, (name, row) in enumerate(zip(names, evaluation.confusion, strict=True)):
        if sum(row):
            print(f"{name:<{width}}  {row[i]:7d}  {sum(row):6d}  {row[i] / sum(row):8.1%}")
    correct = sum(row[i] for i, row in enumerate(evaluation.confusion))
    print(
        f"{'all':<{width}}  {correct:7d}  {len(evaluation.labels):6d}  {evaluation.accuracy:8.2%}\n"
    )
    print(f"{'copies':<14}  accuracy  changed  largest change of a probability")
    for copy in evaluation.copies:
        print(
            f"{copy.kind:<14}  {copy.accuracy:8.2%}  {len(copy.changed):7d}  "
            f"{copy.largest_difference:.1e}"
        )
        for name in copy.changed:
            print(f"  changed: {printable(name)}")
