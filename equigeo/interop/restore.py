"""The way back from :func:`equigeo.interop.accelerate`."""

from __future__ import annotations

from torch import nn

from equigeo.interop.accelerated import Accelerated, AcceleratedConvolution
from equigeo.interop.accelerated.candidate import FUSION, HERE


def restore(model: nn.Module) -> tuple[str, ...]:
    """Revert :func:`accelerate`: restore the original class of every accelerated module, in place.

    Modules stay the objects that they are. Parameters, buffers, ``state_dict`` with its keys and
    bits, hooks, training flags, ``requires_grad``, devices and dtypes are not touched: what changed
    since acceleration, such as trained weights or another dtype, stays changed. Works on copies,
    and on what was saved and loaded. Afterwards the model can be scripted by ``torch.jit.script``
    as if it had never been accelerated, for instance to be run in LAMMPS.

    Parameters
    ----------
    model : Module
        Changed in place; itself or any module inside may be accelerated.

    Returns
    -------
    tuple of str
        Names in the model of what was restored, "" for the model itself; empty where nothing is
        accelerated, so that code that deploys a model need not know whether it is.

    Raises
    ------
    TypeError
        If ``model`` is no module.
    ValueError
        If the class of an accelerated module was changed since, as ``torch.nn.utils.parametrize``
        does, its ``forward`` was set on the instance, or ``model`` is a convolution of MACE, which
        must change together with its block.
        Nothing is restored then.

    Examples
    --------
    >>> from e3nn import o3
    >>> from equigeo.interop import accelerate
    >>> model = nn.Sequential(o3.Linear("4x0e + 4x1o", "8x0e + 8x1o"), nn.Identity())
    >>> state = model.state_dict()
    >>> report = accelerate(model)
    >>> restore(model)
    ('0',)
    >>> type(model[0]) is o3.Linear, restore(model)
    (True, ())
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
