"""What distinguishes one task of ``equigeo train`` from another."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from equigeo.training import RunConfig, TrainedModel


@dataclass(frozen=True)
class TrainTask:
    """A task of ``equigeo train``; everything else is common.

    Parameters
    ----------
    name : str
        What the user types, and the ``task`` of the checkpoint.
    help : str
        One line.
    config_type : type
        The configuration; its recipes are the presets.
    recipe_options : tuple of str
        Fields of the recipe that may be changed.
    add_data_options : callable
        Adds the options that name data, with the names of fields of the configuration; those that
        are not given must be None.
    resolve : callable
        Gives the configuration's ``data`` for what the user typed after ``--data``, or for None
        where that is missing or no option.
    train : callable
        Says what it does, and does it; takes the configuration, the output folder and the keywords
        of ``train_model``.
    """

    name: str
    help: str
    config_type: type[RunConfig]
    recipe_options: tuple[str, ...]
    add_data_options: Callable[[Any], None]
    resolve: Callable[[str | None], str]
    train: Callable[..., TrainedModel]
