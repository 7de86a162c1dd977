"""Accuracy on affNIST and homNIST of networks trained on centered MNIST, every run listed.

    python -m bench.affnist --data ../shared/data/mnist --network default --runs 3 \
        --output bench/results/affnist_default.json

Training digits are centered and never transformed; the 20,000 test digits are fixed and seen once,
after the last epoch. Settings were chosen on transformed validation digits (``--holdout``). All
networks have the recipe of the default preset, and about its cost. Beside each accuracy stand two
changes of the logits over their deviation across images, before and after training: from one of
affNIST's transformations to another (both images are rendered), and from the centered digit to a
transformation (rendering smooths, so that the image itself changes too). With ``--untrained``, only
before training, of ``--images`` digits; with ``--holdout`` of validation digits.
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import mean
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from bench.recorder import Record, chosen, going_on, parsed
from equigeo.affine import AffineResNet, AffineResNetConfig, MomentFrame, WindowWarning
from equigeo.datasets import AffNIST, load_digits
from equigeo.tasks.affnist import (
    IMAGE_RECIPES,
    AffNISTClassification,
    ImageConfig,
    PlainCNN,
    PlainCNNConfig,
    evaluate_image_classifier,
    logit_change,
)
from equigeo.tasks.affnist.task import image_logits
from equigeo.tasks.common.measures import relative_change


class FramedCNN(PlainCNN):
    """The plain CNN behind the frame of the default network: what of it the frame alone explains.

    It does two thirds of the plain CNN's work: 32 pixels a side instead of 40.
    """

    def __init__(self, config: PlainCNNConfig) -> None:
        super().__init__(config)
        frame = AffineResNetConfig(config.num_classes).frame
        self.frame = MomentFrame(frame.size, frame.extent, frame.smoothing, residual=frame.residual)

    def forward(self, images: Tensor) -> Tensor:
        """Classify what the frame shows."""
        return super().forward(self.frame(images))


SETTINGS = ("network", "epochs", "holdout", "untrained", "threads", "images")  # of a series
TEST_IMAGES = 20_000  # of each test, but for the longest
NETWORKS: dict[str, tuple[str, Callable[[], nn.Module]]] = {  # preset, and what to build
    "default": ("default", lambda: AffineResNet.preset("default")),
    "cnn": ("cnn", lambda: PlainCNN.preset("cnn", 10)),
    "frame-cnn": ("cnn", lambda: FramedCNN(PlainCNNConfig(10))),
    "paper": ("paper", lambda: AffineResNet.preset("paper")),
}


def main() -> None:
    """Run the series and write the table after every run."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--network", choices=tuple(NETWORKS), default="default")
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--epochs", type=int)
    parser.add_argument("--holdout", action="store_true")
    parser.add_argument("--untrained", action="store_true")
    parser.add_argument("--images", type=int, default=TEST_IMAGES)
    arguments = parsed(parser, work="runs/affnist", required=True, threads=0)
    record = Record.series(arguments, *SETTINGS)
    warnings.simplefilter("ignore", WindowWarning)  # the published sampler has no valid windows
    make = untrained_run if arguments.untrained else one_run
    for seed in range(arguments.runs):
        print(json.dumps(record.keep({"seed": seed}, partial(make, arguments, seed))))
    if not arguments.untrained:
        record.write({"mean accuracy": mean(run["affNIST"] for run in record.runs)})


def one_run(arguments: argparse.Namespace, seed: int) -> dict[str, Any]:
    """Train once; measure accuracies and changes of the logits."""
    config, model, digits = prepared(arguments, seed)
    untrained = logit_changes(model, digits)
    framed = arguments.network == "frame-cnn"  # which no preset builds
    trained = AffNISTClassification().train(
        config,
        model=model.train() if framed else None,
        **going_on(arguments, arguments.output.stem, f"run-{seed}"),
    )
    if framed:  # read back as its preset's, whose weights it has
        model.load_state_dict(trained.model.state_dict())
        trained = replace(trained, model=model.eval())
    numbers = {"affnist": arguments.images, "homnist": config.test_images, "centred": None}
    affine, homography, centred = (
        evaluate_image_classifier(trained, test, number, split=config.evaluated_split)
        for test, number in numbers.items()
    )
    return {
        "seed": seed,
        "affNIST": affine.accuracy,
        "homNIST": homography.accuracy,
        "centred": centred.accuracy,
        "images": affine.images,
        "split": affine.split,
        "logit change, untrained": untrained,
        "logit change, trained": logit_changes(trained.model.eval(), digits),
        "training seconds": sum(epoch["seconds"] for epoch in trained.history),
        "epochs": config.recipe.epochs,
        "threads": torch.get_num_threads(),
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "GFLOP for an image": flops(trained.model),
        "history": trained.history,
        "model": trained.model.config.to_dict(),
    }


def prepared(arguments: argparse.Namespace, seed: int) -> tuple[ImageConfig, nn.Module, AffNIST]:
    """Return the configuration, the network before training, and the digits to evaluate on."""
    config = ImageConfig(
        str(arguments.data.resolve()),
        recipe=replace(IMAGE_RECIPES["default"], **chosen(arguments, "epochs")),
        seed=seed,
        preset=NETWORKS[arguments.network][0],
        holdout=arguments.holdout,
        evaluate_every=0,
        test_images=min(arguments.images, TEST_IMAGES),
    )
    torch.manual_seed(seed)
    model, split = NETWORKS[arguments.network][1]().eval(), config.evaluated_split
    return config, model, AffNIST(*load_digits(config.data, split), split)


def untrained_run(arguments: argparse.Namespace, seed: int) -> dict[str, Any]:
    """Measure what chance weights do."""
    config, model, digits = prepared(arguments, seed)
    return {
        "seed": seed,
        "images": arguments.images,
        "split": config.evaluated_split,
        "logit change, untrained": logit_changes(model, digits, arguments.images),
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "GFLOP for an image": flops(model),
    }


def logit_changes(model: nn.Module, digits: AffNIST, number: int = 1000) -> dict[str, float]:
    """Measure both changes of the logits, of some digits spread over the data."""
    indices, variants = digits.pairs(digits.spread(min(number, len(digits.images))))
    first, second = (
        image_logits(model, digits.render(indices, variants + step)) for step in (0, 1)
    )
    return {
        "rendered against rendered": relative_change(first, second),
        "centred against rendered": logit_change(model, digits, number),
    }


def flops(model: nn.Module) -> float:
    """Work of an image more in the batch: kernels are made once for all."""
    counts = []
    for batch in (1, 2):
        with FlopCounterMode(display=False) as counter, torch.no_grad():
            model.eval()(torch.rand(batch, 1, 40, 40))
        counts.append(counter.get_total_flops())
    return (counts[1] - counts[0]) / 1e9


if __name__ == "__main__":
    main()
