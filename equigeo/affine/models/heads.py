"""From features on a group to logits."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

from equigeo.affine.models.affine_resnet_parts import HeadConfig
from equigeo.affine.samples.group_pool import GroupPool
from equigeo.groups import GroupSamples

# The attention's weights begin at zero: a step of the optimiser then moves scores four times as far
# as those of a plain linear layer, and the prior ten times as far again. Chosen with the
# defaults, on transformed validation digits.
_SHARPNESS = 4
_PRIOR_SHARPNESS = 40


class OrientationHead(nn.Module):
    r"""Logits of the features at the orientation that it attends to.

    .. math:: \ell = W \sum_i a_i x_i + b, \qquad
              a = \operatorname{softmax}_i\bigl(
              4\,u \cdot x_i + 40\,p(\theta_i) - (\theta_i / w)^4\bigr)

    One score, the same for all classes, decides where to look; all logits are read there. (Were
    every class free to choose its orientation, each would choose the one that favours it most.)
    The score depends on the features alone, so that it turns with the image: the sum over a full
    circle of equidistant rotations is a Haar mean, which converges faster than any power of their
    number and which a turn leaves as it is.

    The prior :math:`p`, a Fourier series in the angle from the upright, begins at zero. What is
    trained on images that stand upright may learn from it where to look, as it must to tell a 6
    from a 9; what is trained on turned ones learns none. Images that all stand exactly upright
    would make it so sharp that a small turn changes everything: in training, it therefore reads
    angles with an error, one for each image. A window, the last term, does not turn with the image
    either, and changes logits before any training.

    Parameters
    ----------
    channels, num_classes : int
        Channels in, logits out.
    window : float
        ``w`` in degrees; 180 or more is no window.
    dropout : float
        Share of channels set to zero in training, after the orientation was found.
    prior : int
        Frequencies of the prior; 0 for none.
    prior_noise : float
        Largest error, in degrees, of the angles that the prior reads in training.

    Equivariance
    ------------
    Invariant to rotations without window and prior, and so to whether a digit stands on its head: 6
    and 9 differ by their shapes alone. With a prior that is not zero, or a window, logits are only
    nearly invariant to turns that change it little.

    Examples
    --------
    >>> import torch
    >>> from equigeo.groups import equidistant_rotations
    >>> head = OrientationHead(6, 10)
    >>> head(torch.rand(2, 6, 12, 1, 1), equidistant_rotations(12)).shape
    torch.Size([2, 10])
    """

    def __init__(
        self,
        channels: int,
        num_classes: int,
        window: float = 180.0,
        dropout: float = 0.0,
        prior: int = 0,
        prior_noise: float = 0.0,
    ) -> None:
        super().__init__()
        self.window = window
        self.prior_noise = prior_noise
        self.prior = nn.Parameter(torch.zeros(2 * prior))  # of cosines, then of sines
        self.attend = nn.Linear(channels, 1, bias=False)
        nn.init.zeros_(self.attend.weight)  # at first a mean over the window
        self.dropout = nn.Dropout(dropout)
        self.classify = nn.Linear(channels, num_classes)

    def forward(self, x: Tensor, samples: GroupSamples) -> Tensor:
        """Classify.

        Parameters
        ----------
        x : Tensor, (B, C, N, *S), floating
            Features; pixels are averaged.
        samples : GroupSamples
            Rotations of the plane that they live on.

        Returns
        -------
        Tensor, (B, num_classes), dtype of ``x``
            Logits.
        """
        x = x.flatten(3).mean(3)
        weight = self.attention(x, samples)
        return self.classify(self.dropout((x * weight[:, None]).sum(2)))

    def attention(self, x: Tensor, samples: GroupSamples) -> Tensor:
        """Weigh orientations.

        Parameters
        ----------
        x : Tensor, (B, C, N), floating
            Features at each orientation.
        samples : GroupSamples
            Rotations of the plane that they live on.

        Returns
        -------
        Tensor, (B, N), dtype of ``x``
            Weights, of sum 1.
        """
        score = _SHARPNESS * self.attend(x.mT)[..., 0]
        angle = samples.coordinates[:, -1].to(x)
        if len(self.prior):
            seen = angle
            if self.training and self.prior_noise:
                error = math.radians(self.prior_noise) * (2 * torch.rand_like(x[:, :1, 0]) - 1)
                seen = angle + error
            turns = seen[..., None] * torch.arange(1, len(self.prior) // 2 + 1).to(x)
            waves = torch.cat([turns.cos(), turns.sin()], -1)
            score = score + _PRIOR_SHARPNESS * waves @ self.prior
        if self.window < 180:
            # A fourth power is flat inside of the window and steep at its rim, and smooth.
            score = score - (angle / math.radians(self.window)) ** 4
        return score.softmax(1)

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *rest: Any) -> None:
        # Weights of before there was a prior: none is a prior of zero.
        state_dict.setdefault(prefix + "prior", torch.zeros_like(self.prior))
        super()._load_from_state_dict(state_dict, prefix, *rest)


class MaxHead(nn.Module):
    """Maximum over group and space, then a perceptron.

    Parameters
    ----------
    channels, num_classes : int
        Channels in, logits out.
    dropout : float
        Share of hidden channels set to zero in training.
    hidden : int
        Width of the perceptron.

    Equivariance
    ------------
    Invariant up to the window of the samples.

    Examples
    --------
    >>> import torch
    >>> from equigeo.groups import equidistant_rotations
    >>> MaxHead(6, 10)(torch.rand(2, 6, 8, 3, 3), equidistant_rotations(8)).shape
    torch.Size([2, 10])
    """

    def __init__(
        self, channels: int, num_classes: int, dropout: float = 0.0, hidden: int = 256
    ) -> None:
        super().__init__()
        self.pool = GroupPool("max")
        self.classify = nn.Sequential(
            nn.Linear(channels, hidden, bias=False),
            nn.LayerNorm(hidden),
            nn.GELU(),
            nn.Dropout(dropout),
            nn.Linear(hidden, num_classes),
        )

    def forward(self, x: Tensor, samples: GroupSamples) -> Tensor:
        """Classify.

        Parameters
        ----------
        x : Tensor, (B, C, N, *S), floating
            Features.
        samples : GroupSamples
            Samples that they live on.

        Returns
        -------
        Tensor, (B, num_classes), dtype of ``x``
            Logits.
        """
        return self.classify(self.pool(x, samples))


def make_head(config: HeadConfig, num_classes: int) -> nn.Module:
    """Make the head of a configuration.

    Parameters
    ----------
    config : HeadConfig
        Its kind and channels.
    num_classes : int
        Number of logits.

    Returns
    -------
    torch.nn.Module
        Takes features and their samples, gives logits.
    """
    if config.kind == "max":
        return MaxHead(config.features, num_classes, config.dropout)
    return OrientationHead(
        config.features,
        num_classes,
        config.window,
        config.dropout,
        config.prior,
        config.prior_noise,
    )
