"""Device and number of threads of a command."""

from __future__ import annotations

import argparse
import os
from typing import Any

import torch

from equigeo.tasks.arguments import Argument, threads


def add_machine(parser: Any, device: str) -> None:
    """Add ``--device``, with its default, and ``--threads`` to a parser or a group."""
    parser.add_argument(
        "--device",
        choices=("auto", "cpu", "cuda"),
        default=device,
        help=f"what computes; auto: a GPU where there is one (default: {device})",
    )
    Argument("--threads", "of each process (default: one per core)", threads, metavar="N").add_to(
        parser
    )


def use_machine(options: argparse.Namespace) -> torch.device:
    """Set the number of threads and return the device."""
    has_card = torch.cuda.is_available()
    if options.device == "cuda" and not has_card:
        raise ValueError(
            "--device cuda: PyTorch finds no GPU here; leave the option out, or install a PyTorch "
            "with CUDA and its driver"
        )
    if options.threads:
        os.environ["OMP_NUM_THREADS"] = str(options.threads)  # for processes that are started
        torch.set_num_threads(options.threads)
    return torch.device("cuda" if has_card and options.device != "cpu" else "cpu")
