"""A word of caution about checkpoints of runs under way."""

from __future__ import annotations

import sys

from equigeo.training import TrainedModel


def note_unfinished(trained: TrainedModel) -> None:
    """Say on standard error that a run has epochs to go, if it has.

    Parameters
    ----------
    trained : TrainedModel
        Of any task.
    """
    done, epochs = len(trained.history), trained.config.recipe.epochs
    if done < epochs:
        print(f"note: this run has finished {done} of {epochs} epochs", file=sys.stderr)
