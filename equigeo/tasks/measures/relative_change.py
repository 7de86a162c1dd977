"""The change of logits in units of what they tell apart."""

from __future__ import annotations

import torch
from torch import Tensor


def relative_change(original: Tensor, moved: Tensor) -> float:
    r"""Compare logits of transformed samples with those of the originals.

    .. math:: \sqrt{\frac{\langle |f(g_i x_i) - f(x_i)|^2 \rangle_i}
                         {\langle |f(x_i) - \langle f \rangle|^2 \rangle_i}}

    The root mean square change in units of the deviation across samples: 0 for an invariant model,
    about 1.4 for one whose output has nothing to do with its input.

    Parameters
    ----------
    original, moved : Tensor, (samples, classes)
        Logits of the same samples in the same order.

    Returns
    -------
    float
        The relative change; infinite where the originals are not told apart and the others are.

    Examples
    --------
    >>> original = torch.tensor([[1.0], [3.0]])
    >>> relative_change(original, original + 0.5)
    0.5
    """
    original, moved = original.double(), moved.double()
    change = (moved - original).square().sum()
    spread = (original - original.mean(dim=0)).square().sum()
    if spread == 0:
        return 0.0 if change == 0 else float("inf")
    return float(torch.sqrt(change / spread))
