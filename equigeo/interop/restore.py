"""Reversal of accelerations."""

from __future__ import annotations

from torch import nn

from equigeo.interop.accelerated import Accelerated, AcceleratedConvolution
from equigeo.interop.accelerated.candidate import FUSION, HERE


def restore(model: nn.Module) -> tuple[str, ...]:
    """Revert :func:`accelerate`: restore the original class of every accelerated module, in place.

    Parameters, buffers, hooks, flags, devices and dtypes keep their current state, such as trained
    weights. Also works on copies and on loaded models. Afterwards the model can be scripted.

    Parameters
    ----------
    model : Module
        Changed in place.

    Returns
    -------
    tuple of str
        Names of the restored modules, "" for the model itself; empty without accelerated modules.

    Raises
    ------
    ValueError
        If an accelerated module has another class now, as after ``torch.nn.utils.parametrize``, or
        a ``forward`` set on the instance, or ``model`` is a convolution of MACE without its block.
        Nothing is restored then.

    Examples
    --------
    >>> from e3nn import o3
    >>> from equigeo.interop import accelerate
    >>> model = nn.Sequential(o3.Linear("4x0e + 4x1o", "8x0e + 8x1o"), nn.Identity())
    >>> report = accelerate(model)
    >>> restore(model), type(model[0]) is o3.Linear
    (('0',), True)
    """
    if not isinstance(model, nn.Module):
        raise TypeError(f"model must be a torch.nn.Module, got {type(model).__name__}")
    if isinstance(model, AcceleratedConvolution):
        raise ValueError(
            f"expected the block that calls this convolution, or the whole model, got its "
            f"{type(model).__name__} alone"
        )
    found = [(path, m) for path, m in model.named_modules() if isinstance(m, Accelerated)]
    for path, module in found:
        if "made_of" not in vars(type(module)):
            raise ValueError(
                f"{path or 'the model'} must be as accelerate left it, got a "
                f"{type(module).__name__}: undo first what changed its class"
            )
        if "forward" in vars(module):  # which may call the accelerated one
            raise ValueError(
                f"{path or 'the model'} must be as accelerate left it, but its forward was set on "
                "the instance: undo that first"
            )
    for _, module in found:
        module.uninstall()
    for block in model.modules():
        if vars(block).get(FUSION) == HERE:
            delattr(block, FUSION)
    return tuple(path for path, _ in found)
