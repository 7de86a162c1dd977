"""Invariance of any network by the pose of least energy on the orbit of an input, of any group."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from types import NoneType
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from equigeo._core.checks import checked_integer, kind_of, takes_integers
from equigeo._core.tensors import (
    computed_in,
    computes_in_float32,
    disable_compiler,
    forward_mode_active,
    transforms_active,
    values_readable,
    wide_parameters,
)
from equigeo.groups import SO, Affine, Group, GroupSamples, O
from equigeo.groups.sampling import signed_permutations
from equigeo.mds.embed import embed
from equigeo.mds.options import EmbedOptions
from equigeo.points.clouds import check_finite
from equigeo.reps import Field, Points, Representation

Energy = Callable[..., Tensor]
_LEAST_CURVATURE = 1e-6
"""Directions of less curvature, relative to the largest, are those of a symmetry: no step there."""

_POLISHING_STEPS = 3  # each doubles the digits, from about eight in float64
_APART = 0.1
"""Elements that differ by less are of one minimum, which descents locate to about a hundredth."""

_FRAMES: dict[type[Group], str] = {O: "O", SO: "SO"}


@takes_integers
class Canonicalized(nn.Module):
    r"""Apply a network to inputs moved to the pose of least energy on their orbit.

    .. math:: f(g^* x), \qquad g^* = \operatorname{argmin}_{g} E(g x)

    Works for any network, also a frozen one, and any group. The energy is learned (see
    :func:`pose_loss`) or given. A learned energy is a prior of the poses on which the network was
    trained. The search begins at each of the ``starts``: random elements, samples of the group, or
    the principal frames of a cloud. Newton's method in the Lie algebra refines them; with
    ``steps=0`` it only chooses among them.

    Invariant, or equivariant with ``rep_out``, for inputs that are not :meth:`flagged`: without
    steps, under the group that the samples form, or under all of O(n) and SO(n) with frames; with
    steps, where a start leads to the global minimum and it is unique up to the stabilizer of the
    input. Up to rounding, for images up to interpolation. References: Kaba et al., "Equivariance
    with learned canonicalization functions", 2023; Mondal et al., "Equivariant adaptation of large
    pretrained models", 2023; Shumaylov et al., "Lie algebra canonicalization: equivariant neural
    operators under arbitrary Lie groups", 2025.

    Parameters
    ----------
    network : nn.Module
        Called with moved inputs and the other arguments.
    energy : nn.Module
        Maps inputs (batch, ..., dim) to energies (batch,), each input separately, twice
        differentiable if there are steps. For a noncompact group it must grow without bound along
        orbits. If its ``forward`` has an argument ``samples``, it is called with the input and the
        samples and returns the energies (batch, samples) of the input moved by the inverse of each
        sample, as an equivariant network does in one pass; needs ``steps=0``.
    rep_in, rep_out : Representation
        Action of the group on inputs and outputs; outputs are invariants by default. Images and
        volumes are a :class:`equigeo.reps.Field`, with samples as starts and ``steps=0``.
    starts : int, GroupSamples or "frames"
        Number of elements, drawn once by ``group.sample(starts, radius=radius)``; samples, whose
        inverses move the input; or, for :class:`equigeo.reps.Points` of O(n), SO(n) and their rigid
        motions, the rotations of a cloud (batch, points, n) to its principal axes in any order and
        direction, 48 or, for SO(3), 24.
    radius, seed : float, int
        Of elements that are drawn.
    steps : int
        Newton steps per start.

    Examples
    --------
    >>> from equigeo.groups import SO
    >>> from equigeo.reps import Points
    >>> class Lean(nn.Module):  # minimal where the cloud lies along its first axis, heavy side up
    ...     def forward(self, x):
    ...         return x[..., 1].square().sum(-1) - 0.1 * x[..., 0].pow(3).sum(-1)
    >>> network = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 1)).double()
    >>> x = torch.tensor([[[0.0, 1.0], [1.0, 0.0], [-1.0, -1.0]]], dtype=torch.float64)
    >>> turned = torch.stack([-x[..., 1], x[..., 0]], -1)  # a quarter turn
    >>> for options in ({"starts": 8}, {"starts": "frames", "steps": 0}):
    ...     model = Canonicalized(network, Lean(), Points(SO(2)), **options)
    ...     assert torch.allclose(model(x), model(turned))
    """

    def __init__(
        self,
        network: nn.Module,
        energy: nn.Module,
        rep_in: Representation,
        rep_out: Representation | None = None,
        *,
        starts: int | GroupSamples | Literal["frames"] = 16,
        radius: float = 1.0,
        steps: int = 20,
        seed: int = 0,
    ) -> None:
        super().__init__()
        for name, rep in (("rep_in", rep_in), ("rep_out", rep_out)):
            if not isinstance(rep, Representation) and (name == "rep_in" or rep is not None):
                raise TypeError(f"{name} must be a Representation, got {kind_of(rep)}")
        if rep_out is not None and rep_out.group != rep_in.group:
            raise ValueError(
                f"rep_in and rep_out must be of one group, got {rep_in.group} and {rep_out.group}"
            )
        if steps < 0:
            raise ValueError(f"steps must not be negative, got {steps}")
        if steps and (isinstance(rep_in, Field) or _reads_samples(energy)):
            raise ValueError(
                "images, and energies of all samples at once, have no second derivatives by the "
                f"pose: steps must be 0, got {steps}"
            )
        self.network, self.energy = network, energy
        self.rep_in, self.rep_out, self.steps = rep_in, rep_out, steps
        _check_starts(energy, starts, rep_in)
        self._starts: Tensor | GroupSamples | str
        if isinstance(starts, (GroupSamples, str)):
            self._starts = starts
        else:
            if not steps:
                raise ValueError("starts that are drawn at random need steps, got 0")
            count = checked_integer("starts", starts, 1)
            generator = torch.Generator().manual_seed(seed)
            # Not a buffer: float64 for every dtype of the network.
            self._starts = rep_in.group.sample(count, radius=radius, generator=generator)

    def extra_repr(self) -> str:
        starts = repr(self._starts) if isinstance(self._starts, str) else len(self._starts)
        return f"rep_in={self.rep_in}, starts={starts}, steps={self.steps}"

    def elements(self, x: Tensor) -> Tensor:
        """Return the group elements (batch, size, size), float64, that minimize the energy.

        Inputs are (batch, ..., rep_in.dim), or fields (batch, channels, *S), floating. Elements are
        differentiable by inputs and, with steps, energy parameters. Raises ``NotImplementedError``
        in recorded programs, under ``vmap`` and on the meta device, and ``ValueError`` for energies
        that are not finite.
        """
        return self._search(x)[0]

    def flagged(self, x: Tensor) -> Tensor:
        """Return a mask (batch,) of inputs whose pose rounding may change.

        Their energy is the same in two poses, up to the tolerance of signs of :func:`embed`, or
        principal axes are degenerate. This includes symmetric inputs, for which both poses may be
        the same.
        """
        return self._search(x)[1]

    @computes_in_float32
    @disable_compiler  # differentiates the energy in every step
    def _search(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return the elements of least energy and a mask of those that are in doubt."""
        energy, rep = self.energy, self.rep_in
        if isinstance(rep, Field):
            rep.check_features(x)
        fits = isinstance(rep, Field) or x.shape[-1:] == (rep.dim,)
        if not fits or x.ndim < 1 + _feature_axes(rep) or not x.is_floating_point():
            wanted = "channels, *S" if isinstance(rep, Field) else f"..., {rep.dim}"
            raise ValueError(
                f"inputs must be (batch, {wanted}) and floating, got {tuple(x.shape)} {x.dtype}"
            )
        if not values_readable(x):
            raise NotImplementedError(
                "the search depends on values, which vmap, recorded programs and the meta device "
                "do not have: call it outside of them"
            )
        learned = any(p.requires_grad for p in energy.parameters())
        recorded = torch.is_grad_enabled() and (x.requires_grad or learned)
        # A descent needs slopes even without gradients of its result.
        with torch.inference_mode(False), wide_parameters(energy):
            x = x.clone() if x.is_inference() else x
            x = x.to(computed_in(x.dtype))
            element, doubtful = start_elements(self._starts, rep, x)
            with torch.no_grad():
                value = start_energies(energy, self._starts, rep, x, element)
            if self.steps:
                element, value = descend(energy, rep, x, element.detach(), value, self.steps)
            found, tied = _least(element, value, x.dtype, apart=_APART if self.steps else 0.0)
            if self.steps:
                found = _polish(_Orbit(energy, rep, x.detach()), found)
                if recorded or forward_mode_active() or transforms_active():
                    found = _follow_minimum(energy, rep, x, found)
        return found, doubtful | tied

    def forward(self, x: Tensor, *arguments: Any, **keywords: Any) -> Tensor:
        """Move inputs (batch, ..., rep_in.dim), or fields, and apply the network.

        Errors: see :meth:`elements`. Other arguments are passed to the network. Its output (batch,
        *) is moved back with ``rep_out``.
        """
        element = self.elements(x)
        found: Tensor = self.network(_act(self.rep_in, element, x), *arguments, **keywords)
        if self.rep_out is None:
            return found
        return _act(self.rep_out, self.rep_in.group.inverse(element), found)


def pose_loss(
    energy: Energy,
    rep: Representation,
    x: Tensor,
    *,
    starts: GroupSamples | Literal["frames"] | None = None,
    radius: float = 1.0,
    generator: torch.Generator | None = None,
) -> Tensor:
    r"""Return the mean loss of an energy as a prior of the poses of data.

    .. math:: \log\bigl(1 + e^{E(x) - E(g x)}\bigr), \qquad g \text{ random}

    or, with ``starts``, the negative log-likelihood of the start :math:`g_0` that is nearest to the
    identity, if the probability of a pose is proportional to :math:`e^{-E}`:

    .. math:: E(g_0 x) + \log \sum_k e^{-E(g_k x)}

    Minimizing it makes the energy lower in the poses of the data than elsewhere on their orbits
    (Shumaylov et al., "Lie algebra canonicalization", 2025; with starts, Mondal et al.,
    "Equivariant adaptation of large pretrained models", 2023).

    Parameters
    ----------
    energy, rep
        See :class:`Canonicalized`.
    x : Tensor, (batch, ..., dim) or (batch, channels, *S), floating
        Inputs in usual poses.
    starts : GroupSamples or "frames", optional
        As of the :class:`Canonicalized` network.
    radius : float
        Radius of the random elements, as in ``group.sample``.

    Examples
    --------
    >>> from equigeo.groups import SO
    >>> from equigeo.reps import Points
    >>> upright = torch.randn(8, 5, 2, dtype=torch.float64) * torch.tensor([0.1, 1.0])
    >>> width = lambda x: x[..., 0].square().sum(-1)
    >>> bool(pose_loss(width, Points(SO(2)), upright) < torch.tensor(2.0).log())
    True
    """
    if not isinstance(starts, (GroupSamples, str, NoneType)):
        raise TypeError(f"starts must be GroupSamples, 'frames' or None, got {kind_of(starts)}")
    _check_starts(energy, starts, rep)
    if starts is not None:
        element, _ = start_elements(starts, rep, x)
        n = rep.group.n
        usual = element[..., :n, :n].diagonal(dim1=-2, dim2=-1).sum(-1).argmax(0)
        return F.cross_entropy(-start_energies(energy, starts, rep, x, element).mT, usual)
    g = rep.group.sample(len(x), radius=radius, generator=generator).to(x.device)
    return F.softplus(energy(x) - energy(_act(rep, g, x))).mean()


def _check_starts(
    energy: Energy, starts: int | GroupSamples | str | None, rep: Representation
) -> None:
    """Raise if samples do not act on inputs or are missing, or if inputs have no frames."""
    if isinstance(starts, GroupSamples):
        if not starts.group.maps_to(rep.group):
            raise ValueError(f"starts must be samples of {rep.group}, got {starts.group}")
        return
    if _reads_samples(energy):
        raise ValueError(f"an energy with an argument 'samples' needs them as starts, got {starts}")
    if isinstance(starts, str):
        if starts != "frames":
            raise ValueError(f"starts must be an integer, samples or 'frames', got {starts!r}")
        if not isinstance(rep, Points) or type(rep.group.linear_group) not in _FRAMES:
            raise ValueError(
                "starts='frames' needs Points of O(n), SO(n) or their rigid motions, such as "
                f"Points(Affine(O(3))), got {rep}"
            )


def start_elements(
    starts: Tensor | GroupSamples | str, rep: Representation, x: Tensor
) -> tuple[Tensor, Tensor]:  # (starts, batch, size, size), float64; (batch,), bool
    """Return where the search begins, and a mask of inputs for which rounding may change it."""
    if isinstance(starts, str):
        return _frame_elements(rep, x)
    found = starts
    if isinstance(found, GroupSamples):
        found = found.group.convert(found.h_inv.double(), rep.group)
    shape = len(found), len(x), *found.shape[1:]
    return found.to(x.device)[:, None].expand(shape), x.new_zeros(len(x), dtype=torch.bool)


def _frame_elements(rep: Representation, x: Tensor) -> tuple[Tensor, Tensor]:
    """Return rotations of clouds to their principal axes in all orders and directions."""
    group, dim = rep.group, rep.group.n
    if x.ndim != 3:
        raise ValueError(f"clouds must be (batch, points, {dim}), got {tuple(x.shape)}")
    check_finite(x, "clouds")
    options = EmbedOptions(translation=isinstance(group, Affine), fallback="ignore")
    found = embed(x, group=_FRAMES[type(group.linear_group)], options=options)
    turns = signed_permutations(dim).to(x.device)
    if found.group == "SO":
        turns = turns[torch.linalg.det(turns) > 0]
    element = turns[:, None] @ found.frame.double().mT
    if isinstance(group, Affine):
        shift = -(element @ found.centroid.double()[..., None])[..., 0]
        element = group.element(element, shift)
    return element, found.degenerate.any(-1)


def _reads_samples(energy: Energy) -> bool:
    """Return whether an energy has an argument ``samples``."""
    forward = energy.forward if isinstance(energy, nn.Module) else energy
    try:
        return "samples" in inspect.signature(forward).parameters
    except (TypeError, ValueError):  # scripted, or written in C
        return False


def start_energies(
    energy: Energy,
    starts: Tensor | GroupSamples | str,
    rep: Representation,
    x: Tensor,  # (batch, ..., dim)
    element: Tensor,  # (starts, batch, size, size), from start_elements
) -> Tensor:  # (starts, batch), float64
    """Return the energies of inputs moved by each start."""
    if not (isinstance(starts, GroupSamples) and _reads_samples(energy)):
        return _Orbit.of(energy, rep, x, len(element)).energy_at(element)
    found = energy(x, starts.to(device=x.device))
    if found.shape != (len(x), len(starts)):
        raise ValueError(
            f"energies must be ({len(x)}, {len(starts)}), one for each input and sample, "
            f"got {tuple(found.shape)}"
        )
    return found.mT.double()


def descend(
    energy: Energy,  # maps inputs (problems, ..., dim) to (problems,), independently
    rep: Representation,  # action of the group on inputs
    x: Tensor,  # (batch, ..., dim)
    element: Tensor,  # (starts, batch, size, size), float64
    value: Tensor,  # (starts, batch), energies there
    steps: int,  # Newton steps per start
) -> tuple[Tensor, Tensor]:
    """Return elements and values that each start leads to, without gradients."""
    # Newton's method in v of exp(v) g with absolute curvatures, which descends at saddles too. The
    # damping grows when a step does not descend.
    shape, orbit = value.shape, _Orbit.of(energy, rep, x.detach(), len(element))
    element, value = element.flatten(0, 1), value.flatten()
    damping = value.new_full((len(element), 1), 1e-3)  # a thousandth of the largest curvature
    for _ in range(steps):
        step = orbit.step(element, damping)
        with torch.no_grad():
            moved = orbit.move(step, element)
            changed = orbit.energy_at(moved)
        better = changed < value  # False where it is not finite
        element = torch.where(better[:, None, None], moved, element)
        value = torch.where(better, changed, value)
        damping = torch.where(better[:, None], damping / 10, damping * 10).clamp(1e-9, 1e9)
    return element.unflatten(0, shape), value.view(shape)


def _least(
    element: Tensor,  # (starts, batch, size, size)
    value: Tensor,  # (starts, batch)
    dtype: torch.dtype,  # of the input
    apart: float,  # elements that differ by more are other poses
) -> tuple[Tensor, Tensor]:  # (batch, size, size), (batch,)
    """Return the elements of least energy, and whether another pose has the same."""
    finite = value.isfinite()
    if not bool(finite.any(0).all()):
        raise ValueError("the energy of an input is finite at none of the starts")
    size = torch.where(finite, value.abs(), 0).amax(0)
    value = torch.where(finite, value, torch.inf)
    least, first = value.min(0)
    found = element[first, torch.arange(len(first), device=first.device)]
    same = torch.arange(len(value), device=value.device)[:, None] == first
    same = same | ((element - found).abs().amax((-2, -1)) < apart)
    second = torch.where(same, torch.inf, value).amin(0)
    # As of signs of embeddings.
    return found, second - least <= (1e-9 if dtype == torch.float64 else 1e-5) * size


def _polish(orbit: _Orbit, element: Tensor) -> Tensor:
    """Reduce slopes to rounding error: values locate a minimum only to the root of rounding."""
    slope, curvature = orbit.derivatives(element)
    for _ in range(_POLISHING_STEPS):
        moved = orbit.move(_newton_step(slope, curvature), element)
        next_slope, next_curvature = orbit.derivatives(moved)
        better = next_slope.norm(dim=1) < slope.norm(dim=1)
        element = torch.where(better[:, None, None], moved, element).detach()
        slope = torch.where(better[:, None], next_slope, slope)
        curvature = torch.where(better[:, None, None], next_curvature, curvature)
    return element


def _newton_step(
    slope: Tensor,  # (problems, dimension)
    curvature: Tensor,  # (problems, dimension, dimension), treated as constant
) -> Tensor:  # (problems, dimension)
    """Return Newton steps, differentiable by the slopes; zero along flat directions."""
    values, axes = torch.linalg.eigh(curvature)
    known = values > _LEAST_CURVATURE * values.amax(-1, keepdim=True)
    inverse = torch.where(known, 1 / torch.where(known, values, 1), 0)
    return -(axes @ (inverse[..., None] * (axes.mT @ slope[..., None])))[..., 0]


def _follow_minimum(
    energy: Energy,
    rep: Representation,
    x: Tensor,
    element: Tensor,  # (batch, size, size), of least energy
) -> Tensor:  # the same values, differentiable
    """Make a minimum differentiable by two Newton steps of zero length."""
    # For a perturbed input, the first step misses the minimum by the second order and the second by
    # the third: first and second derivatives are exact.
    orbit = _Orbit(energy, rep, x)
    slope, curvature = orbit.derivatives(element)
    first = _newton_step(slope, curvature)
    element = orbit.move(first - first.detach(), element)
    second = _newton_step(orbit.slope(element)[0], curvature)
    return orbit.move(second - second.detach(), element)


def _feature_axes(rep: Representation) -> int:
    return 1 + rep.group.n if isinstance(rep, Field) else 1


def _act(
    rep: Representation,
    element: Tensor,  # (batch, size, size)
    x: Tensor,  # (batch, ..., dim)
) -> Tensor:
    """Transform each input by its element."""
    between = [1] * (x.ndim - 1 - _feature_axes(rep))
    return rep.act(element.reshape(len(element), *between, *element.shape[1:]), x)


@dataclass(frozen=True, eq=False)
class _Orbit:
    """Inputs (problems, ..., dim), their group action, and an energy of moved inputs."""

    energy: Energy
    rep: Representation
    x: Tensor

    @classmethod
    def of(cls, energy: Energy, rep: Representation, x: Tensor, copies: int) -> _Orbit:
        """Build from several copies of each input, (copies * batch, ..., dim)."""
        return cls(energy, rep, x.repeat(copies, *[1] * (x.ndim - 1)))

    def move(self, v: Tensor, element: Tensor) -> Tensor:
        """Apply steps (problems, dimension) in the algebra to elements."""
        group = self.rep.group
        basis = group.generators().to(element)
        return group.exp(torch.einsum("bd,dij->bij", v.to(basis), basis)) @ element

    def energy_at(self, element: Tensor) -> Tensor:
        """Return energies of moved inputs, with the batch axes of the elements."""
        found = self.energy(_act(self.rep, element.flatten(0, -3), self.x))
        if found.shape != (len(self.x),):
            raise ValueError(
                f"energies must be ({len(self.x)},), one for each input, got {tuple(found.shape)}"
            )
        return found.double().view(element.shape[:-2])

    def slope(self, element: Tensor) -> tuple[Tensor, Tensor]:
        """Return differentiable slopes (problems, dimension) at elements, and their variable."""
        with torch.enable_grad():
            v = element.new_zeros(len(element), self.rep.group.dimension, requires_grad=True)
            total = self.energy_at(self.move(v, element)).sum()
            return torch.autograd.grad(total, v, create_graph=True)[0], v

    def derivatives(self, element: Tensor) -> tuple[Tensor, Tensor]:
        """Return slopes with a graph, and constant curvatures (problems, dimension, dimension)."""
        slope, v = self.slope(element)
        rows = []
        for k in range(slope.shape[1]):
            row = None
            if slope.requires_grad:
                with torch.enable_grad():
                    total = slope[:, k].sum()
                    (row,) = torch.autograd.grad(total, v, retain_graph=True, allow_unused=True)
            rows.append(torch.zeros_like(v) if row is None else row)
        curvature = torch.stack(rows, 1).detach()
        return slope, (curvature + curvature.mT) / 2

    def step(self, element: Tensor, damping: Tensor) -> Tensor:
        """Return damped descent steps (problems, dimension) of length at most 1."""
        slope, curvature = self.derivatives(element)
        slope = slope.detach()
        finite = slope.isfinite().all(1) & curvature.isfinite().flatten(1).all(1)
        slope = torch.where(finite[:, None], slope, 0)
        curvature = torch.where(finite[:, None, None], curvature, 0)
        values, axes = torch.linalg.eigh(curvature)
        values = values.abs()
        # Where an energy is flat to second order, as of piecewise linear networks, slopes scale.
        largest = torch.maximum(values.amax(1), slope.norm(dim=1))[:, None]
        damped = values + damping * largest
        along = (axes.mT @ slope[..., None])[..., 0] / torch.where(damped == 0, 1, damped)
        step = -(axes @ along[..., None])[..., 0]
        return step / step.norm(dim=1, keepdim=True).clamp_min(1)
