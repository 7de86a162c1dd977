"""How a model is optimised."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Literal

from torch import nn, optim
from torch.optim.lr_scheduler import CosineAnnealingLR, LRScheduler, OneCycleLR

from equigeo.nn.config import Config
from equigeo.nn.value_range import Range


@dataclass(frozen=True)
class Recipe(Config):
    """Everything that decides how the weights move; part of the training configuration.

    Parameters
    ----------
    epochs : int
        Passes over the training samples.
    batch_size : int
        Samples per step, over all processes together; batches of an epoch differ by at most one.
    learning_rate : float
        Rate of a constant schedule, peak of ``one_cycle``, start of ``cosine``.
    optimizer : {"adamw", "adam"}
        Betas are 0.9 and 0.999; ``one_cycle`` moves the first one against the rate.
    schedule : {"one_cycle", "cosine", "constant"}
        Rate over the steps of the whole run; ``cosine`` falls to 0.
    weight_decay : float
        Decoupled decay of ``adamw``; for ``adam``, the factor of the weights that is added to
        their gradients.
    label_smoothing : float
        Share of the target spread over all classes, in [0, 1).
    logit_adjustment : float
        Weight of the logarithm of a class's share of the training samples, which the loss adds to
        its logit: with 1 the classes of a skewed training set count alike, with 0 as often as they
        come.
    jitter : float
        Deviation of the noise on vertices, in mean edge lengths of their mesh, or on points, in
        halves of the largest side of their cloud; 0 for images.
    ema_decay : float
        Decay of the running average of the weights that is evaluated and saved; 0 for none.
    stretch : float
        Deviation of the logarithms by which every mesh is stretched along random axes in every
        step; 0 for none, and for what is no mesh.
    resolutions : tuple of float
        Simplify, or subdivide and simplify, every mesh once to so many times its number of faces;
        a step draws evenly among these and the mesh as it is. Empty for what is no mesh.
    update_bn : bool
        Estimate the running statistics of BatchNorm layers again for a model that is evaluated,
        and at the end of the run: on all training samples, without noise, with the weights that
        are evaluated and saved. Costs a forward pass of an epoch. Without it they lag behind the
        weights: after a few steps they are those of the initial ones.

    Notes
    -----
    Loss and measure of training samples in the history are means over the steps of an epoch: with
    the noise, the dropout and the batch statistics of training, and with weights that move. They
    say nothing of running statistics, so that a run may end at 100 % with a model that is saved
    at chance.

    Raises
    ------
    ValueError
        If a number is out of range or a name unknown.

    Examples
    --------
    >>> Recipe(epochs=3, batch_size=16, learning_rate=1e-3).schedule
    'one_cycle'
    """

    epochs: int
    batch_size: int
    learning_rate: float
    optimizer: Literal["adamw", "adam"] = "adamw"
    schedule: Literal["one_cycle", "cosine", "constant"] = "one_cycle"
    weight_decay: float = 0.0
    label_smoothing: float = 0.0
    logit_adjustment: float = 0.0
    jitter: float = 0.0
    ema_decay: float = 0.0
    stretch: float = 0.0
    resolutions: tuple[float, ...] = ()
    update_bn: bool = False

    complete: ClassVar[bool] = True
    title: ClassVar[str] = "the recipe"
    ranges: ClassVar[Mapping[str, Range]] = {
        "epochs": Range(1, 10**5),
        "batch_size": Range(1, 10**9),
        "learning_rate": Range(0.0, 1e3, above=True, below=True),
        "weight_decay": Range(0.0, 1e3, below=True),
        "label_smoothing": Range(0.0, 1.0, below=True),
        "logit_adjustment": Range(0.0, 1e3, below=True),
        "jitter": Range(0.0, 1e3, below=True),
        "ema_decay": Range(0.0, 1.0, below=True),
        "stretch": Range(0.0, 10.0),
        # a mesh that is subdivided once has four times the faces
        "resolutions": Range(0.0, 4.0, above=True, entries=16),
    }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Recipe:
        """Read what :meth:`to_dict` gave, in this version or an earlier one."""
        if isinstance(values, Mapping):
            values = {**_UNKNOWN_EARLIER, **values}
        return super().from_dict(values)


# Fields that configurations of earlier versions lack, and what those versions did.
_UNKNOWN_EARLIER: Final[Mapping[str, Any]] = {
    "stretch": 0.0, "resolutions": (), "update_bn": False,
}  # fmt: skip


def build_optimizer(
    parameters: Iterable[nn.Parameter], recipe: Recipe, steps_per_epoch: int
) -> tuple[optim.Optimizer, LRScheduler | None]:
    """Give the optimiser and, unless the rate is constant, the schedule to step after every batch.

    Examples
    --------
    >>> recipe = Recipe(1, 1, 0.1, optimizer="adam", schedule="constant")
    >>> optimizer, schedule = build_optimizer([nn.Parameter()], recipe, steps_per_epoch=30)
    >>> type(optimizer).__name__, schedule
    ('Adam', None)
    """
    rate, decay = recipe.learning_rate, recipe.weight_decay
    optimizer: optim.Optimizer
    if recipe.optimizer == "adamw":
        optimizer = optim.AdamW(parameters, lr=rate, weight_decay=decay, fused=True)
    else:
        optimizer = optim.Adam(parameters, lr=rate, weight_decay=decay, fused=True)
    if recipe.schedule == "constant":
        return optimizer, None
    steps = recipe.epochs * steps_per_epoch
    if recipe.schedule == "cosine":
        return optimizer, CosineAnnealingLR(optimizer, steps)
    return optimizer, OneCycleLR(optimizer, rate, steps)
