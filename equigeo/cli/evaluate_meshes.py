"""``equigeo evaluate`` of a mesh classifier."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import Any

from equigeo.cli.check_target import check_target
from equigeo.cli.class_table import class_table
from equigeo.cli.copies_table import copies_table
from equigeo.cli.printable import printable
from equigeo.cli.write_json import write_json
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


def evaluate_meshes(options: argparse.Namespace) -> None:
    """Print accuracy by class and on copies, and write the report.

    Parameters
    ----------
    options : argparse.Namespace
        Of the command.

    Raises
    ------
    ValueError
        If a file or the data cannot be used.
    """
    from equigeo.report import render_report  # plotly, which the other commands do without

    trained = TrainedClassifier.load(options.checkpoint)
    report = options.checkpoint.with_name("report.html")
    check_target(report)
    config = _configure(options, trained.config)
    dataset = load_data(config.data)
    _, test = divide(dataset, config)
    evaluation = evaluate_classifier(trained, dataset, test, options.seed or 0)
    _print(evaluation)
    used = replace(trained, config=config)
    results = summarize_run(used, evaluation, dataset, options.command_line)
    page = render_report(results)
    atomic_write(report, lambda file: file.write(page.encode()))
    write_json(options.json, evaluation.to_dict())
    print(f"report: {report}")


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
    print(class_table(evaluation.classes, evaluation.confusion, "meshes"))
    print(f"\n{copies_table(evaluation.copies)}")
    for copy in evaluation.copies:
        for name in copy.changed:
            print(f"changed when {copy.kind}: {printable(name)}")
