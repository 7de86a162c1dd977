"""``equigeo evaluate`` of a model of tours."""

from __future__ import annotations

import argparse

from equigeo.cli.note_unfinished import note_unfinished
from equigeo.cli.tour_tables import tour_tables
from equigeo.cli.write_json import write_json
from equigeo.training import TrainedTourModel, evaluate_tour_model


def evaluate_tours(options: argparse.Namespace) -> None:
    """Print gaps to optimal tours, what transformations change, and gaps on TSPLIB.

    Parameters
    ----------
    options : argparse.Namespace
        Of the command.

    Raises
    ------
    ValueError
        If a file or the data cannot be used.
    """
    trained = TrainedTourModel.load(options.checkpoint)
    note_unfinished(trained)
    evaluation = evaluate_tour_model(
        trained, instances=options.instances or 1000, data=options.data, seed=options.seed or 0
    )
    print(tour_tables(evaluation))
    write_json(options.json, evaluation.to_dict())
