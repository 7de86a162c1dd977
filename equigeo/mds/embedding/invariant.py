"""Any network of points, made invariant."""

from __future__ import annotations

import inspect
from typing import Any

import torch
from torch import Tensor, nn

from equigeo.graphs.inputs import TensorLike, as_tensor
from equigeo.groups import SO, Affine, LinearGroup, O, Scaling
from equigeo.mds.embedding.embed import check_choices, embed
from equigeo.mds.embedding.embed_options import DEFAULT, EmbedOptions
from equigeo.mds.embedding.frame_average import REDUCTIONS, frame_average
from equigeo.mds.embedding.frame_set import FrameSet
from equigeo.mds.embedding.frames import KINDS, frames
from equigeo.mds.embedding.sample_frame import sample_frame
from equigeo.ops.runtime.storage import HALF
from equigeo.ops.runtime.torch_internals import values_readable
from equigeo.points.cloud_checks import hint
from equigeo.reps import Points

_GROUPS: dict[str | None, type[LinearGroup]] = {"O": O, "SO": SO, None: Scaling}


class Invariant(nn.Module):
    """A network that sees embedded points.

    Parameters
    ----------
    network : nn.Module
        Called with coordinates in place of points, and whatever else it is given.
    dim : int
        Dimension of space, at least 2.
    group : {"O", "SO", None}
        Whether a cloud and its mirror image are the same; or none, where clouds are only centred
        and scaled: the control that sees them as they stand.
    scale : {"rms", "none", "max", "lambda1", "rms_dist"}
        As of :func:`embed`; radii of the network are in these units.
    kind : {"skew", "joint", "frames", "soft", "frames24", "anchor", "weighted"}
        One frame, its signs by skewness; or an average over frames, see :func:`frames`, with one
        pass of the network for each.
    training_kind : same, optional
        What to do while training; by default as ``kind``. ``"skew"`` costs one pass.
    training_sample : bool
        Whether training takes one frame of each cloud, drawn anew every time, for the average:
        see :func:`sample_frame`. It costs one pass.
    reduce : {"mean", "min", "max"}
        As of :func:`frame_average`.
    options : EmbedOptions
        The rest.

    Attributes
    ----------
    rep_in : Points
        Of rigid motions.

    Raises
    ------
    ValueError
        If a choice is unknown.

    Equivariance
    ------------
    Invariant under isometries of the group and, unless ``scale`` is ``"none"``, similarities, for
    clouds that are not flagged or have exact frames; under permutations as the network is.
    Augment by rotations of nothing, and by jitter before; by stretches and reflections after, in
    the network.

    References
    ----------
    Zhang et al., "Revisiting transformation invariant geometric deep learning", 2021; Puny et
    al., "Frame averaging for invariant and equivariant network design", 2022.

    Examples
    --------
    >>> import torch
    >>> network = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 2))
    >>> model = Invariant(network, scale="none").double()
    >>> x = torch.tensor([[0.0, 0, 0], [1, 0, 0], [1, 2, 0], [1, 2, 3]]).double()
    >>> torch.allclose(model(x), model(x.flip(-1) + 1))
    True
    """

    def __init__(  # noqa: PLR0913 - all by name
        self,
        network: nn.Module,
        *,
        dim: int = 3,
        group: str | None = "O",
        scale: str = "rms",
        kind: str = "skew",
        training_kind: str | None = None,
        training_sample: bool = False,
        reduce: str = "mean",
        options: EmbedOptions = DEFAULT,
    ) -> None:
        super().__init__()
        check_choices(group=group, sign="skew", scale=scale)
        for name, value in (("kind", kind), ("training_kind", training_kind or kind)):
            if value not in ("skew", *KINDS):
                raise ValueError(f"{name} must be one of {('skew', *KINDS)}, got {value!r}")
            if value != "skew" and group is None:
                raise ValueError(f"{name} must be 'skew' where there is no group, got {value!r}")
        if reduce not in REDUCTIONS:
            raise ValueError(f"reduce must be one of {REDUCTIONS}, got {reduce!r}")
        self.network = network
        # Read once: a signature is slow to read, and compilers cannot.
        self._positional, self._takes_batch = _arguments_of(network)
        self.rep_in = Points(Affine(_GROUPS[group](dim)))
        self.group, self.scale, self.reduce, self.options = group, scale, reduce, options
        self.kind, self.training_kind = kind, training_kind or kind
        self.training_sample = training_sample

    def forward(
        self,
        x: TensorLike,
        *arguments: Any,
        mask: TensorLike | None = None,
        ptr: TensorLike | None = None,
        batch: TensorLike | None = None,
        weights: TensorLike | None = None,
        **keywords: Any,
    ) -> Tensor:
        """Embed points and call the network.

        Parameters
        ----------
        x : Tensor or ndarray, (..., points, dim) or, with ``ptr`` or ``batch``, (rows, dim)
            Clouds. Arrays take the dtype of the network.
        *arguments, **keywords
            Given to the network after the coordinates. One that its ``forward`` calls ``batch``
            says what the clouds are, as in PyTorch Geometric: ``model(pos, batch)``.
        mask, ptr, weights : Tensor, optional
            As of :func:`embed`. The network does not get them: give it what it needs.
        batch : Tensor, (rows,), int64, optional
            As of :func:`embed`. The network gets it as well if it has an argument of that name.

        Returns
        -------
        Tensor, (..., *)
            What the network returns; averages begin with the batch axes.

        Raises
        ------
        TypeError, ValueError
            As of :func:`embed`; if the first argument after the points looks like a ``batch``
            and the network calls it otherwise.
        """
        x = self._given_points(x)
        if batch is None:
            batch = self._batch_among(len(x), arguments, ptr)
        elif self._takes_batch:
            keywords["batch"] = batch
        see = self.draw if self.training and self.training_sample else self._frames
        found = see(x, mask=mask, ptr=ptr, batch=batch, weights=weights)

        def answer(y: Tensor) -> Tensor:
            result: Tensor = self.network(self._as_stored(y, x), *arguments, **keywords)
            return result

        if isinstance(found, Tensor):
            return answer(found)
        return frame_average(answer, found, reduce=self.reduce)

    def draw(
        self,
        x: TensorLike,
        *,
        mask: TensorLike | None = None,
        ptr: TensorLike | None = None,
        batch: TensorLike | None = None,
        weights: TensorLike | None = None,
    ) -> Tensor:
        """Embed points in one of the frames in use, drawn anew for every cloud.

        Parameters
        ----------
        x, mask, ptr, batch, weights : Tensor
            As of :meth:`forward`.

        Returns
        -------
        Tensor, (..., points, dim) or, with ``ptr`` or ``batch``, (rows, dim)
            Coordinates.

        Raises
        ------
        TypeError, ValueError
            As of :func:`embed`.
        """
        found = self._frames(x, mask=mask, ptr=ptr, batch=batch, weights=weights)
        return found if isinstance(found, Tensor) else sample_frame(found)

    def _as_stored(self, y: Tensor, x: Tensor) -> Tensor:
        """Coordinates of points of half precision, which are in float32, as weights are stored."""
        weight = next(self.network.parameters(), None)
        return y if weight is None or x.dtype not in HALF else y.to(weight.dtype)

    def _batch_among(
        self, rows: int, arguments: tuple[Any, ...], ptr: TensorLike | None
    ) -> TensorLike | None:
        """Find the vector of clouds among what the network is given, in the way of its own."""
        if ptr is not None or not arguments:
            return None
        for name, value in zip(self._positional, arguments, strict=False):
            if name == "batch":
                return value
        if _is_batch(arguments[0], rows):
            raise ValueError(
                "the int64 vector after the points looks like the batch of several clouds: give it "
                "by name, batch=..., or ptr=torch.tensor([0, len(x)]) if there is one cloud"
            )
        return None

    def _given_points(self, x: TensorLike) -> Tensor:
        """Take clouds of the dimension of this module."""
        x = as_tensor(x, "points", like=next(self.network.parameters(), None))
        shape, dim = tuple(x.shape), self.rep_in.dim
        if len(shape) < 2 or shape[-1] != dim:
            end = hint(shape, "points", dim, batched=False)
            raise ValueError(f"points must be (..., points, {dim}), got {shape}{end}")
        return x

    def _frames(self, x: TensorLike, **clouds: TensorLike | None) -> Tensor | FrameSet:
        """Coordinates in the only frame, or all frames."""
        x = self._given_points(x)
        choices: dict[str, Any] = {
            **clouds,
            "group": self.group,
            "scale": self.scale,
            "options": self.options,
        }
        kind = self.training_kind if self.training else self.kind
        if kind != "skew":
            return frames(x, kind=kind, **choices)
        result = embed(x, **choices)
        return result.y if result.frames is None else result.frames

    def extra_repr(self) -> str:
        """Return what was chosen."""
        return f"group={self.group!r}, scale={self.scale!r}, kind={self.kind!r}"


def _arguments_of(network: nn.Module) -> tuple[tuple[str, ...], bool]:
    """Positional arguments of a network after the points, and whether it takes a ``batch``."""
    try:
        parameters = inspect.signature(network.forward).parameters.values()
    except (TypeError, ValueError):  # scripted, or written in C
        return (), False
    by_position = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    names = tuple(p.name for p in parameters if p.kind in by_position)
    takes = any(p.name == "batch" or p.kind is p.VAR_KEYWORD for p in parameters)
    return names[1:], takes


def _is_batch(value: object, rows: int) -> bool:
    """Whether an argument counts clouds from 0 without a gap, where values can be read."""
    if not isinstance(value, Tensor) or value.dtype != torch.int64 or value.shape != (rows,):
        return False
    if not values_readable(value) or rows == 0:
        return False
    steps = value.diff()
    counts = bool(((steps == 0) | (steps == 1)).all()) and int(value[0]) == 0
    return counts and 0 < int(value[-1]) < rows - 1
