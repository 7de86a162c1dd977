"""Output of an evaluation: text, JSON and report."""

from __future__ import annotations

import json
import platform
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import torch

import equigeo
from equigeo._brief import brief_fields
from equigeo.datasets.replace_file import replace_file
from equigeo.tasks.arguments import Argument
from equigeo.training.run_config import RunConfig
from equigeo.training.trained_model import TrainedModel

ALLOW_TRAINED: Final = Argument(
    "--allow-trained",
    "evaluate samples that the model was trained on, too (default: refuse)",
    constant=True,
)


def describe_trained_on(
    number: int | None,  # None: not recorded in the checkpoint
    total: int,
    samples: str,  # plural noun
    *,
    allowed: object,
) -> str:
    """Return how many evaluated samples were trained on; raise for any unless ``allowed``."""
    if number and not allowed:
        raise ValueError(
            f"{number} of the {total} {samples} to evaluate were trained on, so that results would "
            f"not hold for new ones; choose other data or another split, or {ALLOW_TRAINED.flag}"
        )
    return f"trained on: {number_trained_on(number, total, samples)}"


def number_trained_on(number: int | None, total: int, samples: str) -> str:
    """Return how many evaluated samples were trained on."""
    if number is None:
        return f"unknown, the checkpoint does not record the {samples}"
    return f"{number} of {total} {samples}"


def run_facts(trained: TrainedModel[Any], config: RunConfig, model: str) -> list[tuple[str, str]]:
    """Return model, training, recipe and versions of a run for a report."""
    parameters = sum(p.numel() for p in trained.model.parameters())
    return [
        ("model", f"{model}, {parameters:,} parameters"),
        ("training", f"{trained.epochs_done} epochs, {trained.seconds:.0f} s, seed {config.seed}"),
        ("recipe", ", ".join(f"{k} {v}" for k, v in config.to_dict()["recipe"].items())),
        (
            "versions",
            f"trained by equigeo {trained.version}; evaluated by {equigeo.__version__}, "
            f"torch {torch.__version__}, Python {platform.python_version()}",
        ),
    ]


@dataclass(frozen=True)
class EvaluationOutput:
    """Output of ``equigeo evaluate``: text for the terminal, results (JSON types), HTML report.

    Examples
    --------
    >>> EvaluationOutput("accuracy 50.0%", {"accuracy": 0.5}).results["accuracy"]
    0.5
    """

    text: str
    results: dict[str, Any]
    page: str = ""

    __repr__ = brief_fields

    def write_results(self, path: Path) -> None:
        """Write the results as JSON atomically."""
        replace_file(path, json.dumps(self.results, indent=1) + "\n")

    def write_page(self, path: Path) -> None:
        """Write the report atomically."""
        replace_file(path, self.page)
