"""Accuracy on affNIST and homNIST of networks trained on centered MNIST, every run listed.

    python -m bench.affnist --data ../shared/data/mnist --network default --runs 3 \
        --output bench/results/affnist_default.json

Training digits are centered and never transformed; the 20,000 test digits are fixed and seen once,
after the last epoch. Settings were chosen on transformed validation digits (``--holdout``), the
rate of the published layers too (``--learning-rate``, ``--digits``). All networks have the recipe
of the default preset otherwise, and about its cost. Beside each accuracy stand two changes of the
logits over their deviation across images, before and after training: from one of affNIST's
transformations to another (both images are rendered), and from the centered digit to a
transformation (rendering smooths, so that the image itself changes too). With ``--untrained``, only
before training, of ``--images`` digits; with ``--holdout`` of validation digits.
``--curve`` evaluates every epoch on transformed validation digits.
With ``--resume`` finished runs are kept, and an unfinished one goes on from its checkpoint in
``--work``.
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
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from bench.recorder import Record, going_on, parsed, work_folder
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


def paper_style(features: int) -> AffineResNet:
    """The published layers with as many channels and samples as the cost allows."""
    paper = AffineResNetConfig.paper(10)
    config = replace(
        paper,
        samples=replace(paper.samples, count=5),
        stages=replace(paper.stages, channels=(5,)),
        head=replace(paper.head, features=features),
    )
    return AffineResNet(config)


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


SETTINGS = (  # of a series
    "network", "epochs", "learning_rate", "digits", "holdout", "untrained", "threads", "images",
    "curve",
)  # fmt: skip
TEST_IMAGES = 20_000  # of each test, but for the longest
CURVE_IMAGES = 4000  # after every epoch of --curve
NETWORKS: dict[str, tuple[str, Callable[[], nn.Module]]] = {  # preset, and what to build
    "default": ("default", lambda: AffineResNet.preset("default")),
    "cnn": ("cnn", lambda: PlainCNN.preset("cnn", 10)),
    "frame-cnn": ("cnn", lambda: FramedCNN(PlainCNNConfig(10))),
    "paper-style": ("paper", lambda: paper_style(5)),
    "paper-wide": ("paper", lambda: paper_style(40)),
    "paper": ("paper", lambda: AffineResNet.preset("paper")),
}
OWN = ("paper-style", "paper-wide", "frame-cnn")  # networks that no preset builds


def main() -> None:
    """Run the series and write the table after every run."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--network", choices=tuple(NETWORKS), default="default")
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--epochs", type=int)
    parser.add_argument("--learning-rate", type=float)
    parser.add_argument("--digits", type=int, default=0, help="train on the first so many")
    parser.add_argument("--holdout", action="store_true")
    parser.add_argument("--untrained", action="store_true")
    parser.add_argument("--images", type=int, default=TEST_IMAGES)
    parser.add_argument("--curve", action="store_true")
    parser.add_argument("--work", type=Path, default=Path("runs/affnist"), help="checkpoints")
    arguments = parsed(parser, series=True, required=True, threads=0)
    settings = {name: getattr(arguments, name) for name in SETTINGS}
    record = Record(arguments.output, settings=settings, resume=arguments.resume)
    warnings.simplefilter("ignore", WindowWarning)  # the published sampler has no valid windows
    make = untrained_run if arguments.untrained else one_run
    for seed in range(arguments.first, arguments.first + arguments.runs):
        print(json.dumps(record.keep({"seed": seed}, partial(make, arguments, seed))))
    if not arguments.untrained:
        record.write({"mean accuracy": mean(run["affNIST"] for run in record.runs)})


def one_run(arguments: argparse.Namespace, seed: int) -> dict[str, Any]:
    """Train once; measure accuracies and changes of the logits."""
    config, split = run_config(arguments, seed), evaluated_split(arguments)
    torch.manual_seed(seed)
    model = NETWORKS[arguments.network][1]()
    digits = AffNIST(*load_digits(config.data, split), split)
    untrained = logit_changes(model.eval(), digits)
    trained = AffNISTClassification().train(
        config,
        work_folder(arguments.work) / arguments.output.stem / f"run-{seed}",
        model=model.train() if arguments.network in OWN else None,
        **going_on(arguments),
    )
    if arguments.network == "frame-cnn":  # read back as its preset's, whose weights it has
        model.load_state_dict(trained.model.state_dict())
        trained = replace(trained, model=model.eval())
    numbers = {
        "affnist": arguments.images,
        "homnist": min(arguments.images, TEST_IMAGES),
        "centred": None,
    }
    affine, homography, centred = (
        evaluate_image_classifier(trained, test, number, split=split)
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


def evaluated_split(arguments: argparse.Namespace) -> Literal["validation", "test"]:
    """Which digits the numbers at the end are of."""
    return "validation" if arguments.holdout else "test"


def run_config(arguments: argparse.Namespace, seed: int) -> ImageConfig:
    """Return the recipe of all networks, and what the command line changes."""
    recipe = IMAGE_RECIPES["default"]
    if arguments.epochs is not None:
        recipe = replace(recipe, epochs=arguments.epochs)
    if arguments.learning_rate is not None:
        recipe = replace(recipe, learning_rate=arguments.learning_rate)
    return ImageConfig(
        str(arguments.data.resolve()),
        recipe=recipe,
        seed=seed,
        preset=NETWORKS[arguments.network][0],
        holdout=arguments.holdout or arguments.curve,
        evaluate_every=int(arguments.curve),
        digits=arguments.digits,
        test_images=CURVE_IMAGES if arguments.curve else min(arguments.images, TEST_IMAGES),
    )


def untrained_run(arguments: argparse.Namespace, seed: int) -> dict[str, Any]:
    """Measure what chance weights do."""
    torch.manual_seed(seed)
    model = NETWORKS[arguments.network][1]().eval()
    split = evaluated_split(arguments)
    digits = AffNIST(*load_digits(str(arguments.data.resolve()), split), split)
    return {
        "seed": seed,
        "images": arguments.images,
        "split": split,
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
