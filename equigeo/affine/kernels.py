"""Convolution kernels: a network of relative coordinates times a window."""

from __future__ import annotations

import math
from abc import ABC
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import chain, pairwise
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from equigeo._core.checks import convert_numbers, takes_integers
from equigeo._core.tensors import (
    any_global_hook,
    autocast_active,
    computed_in,
    computes_in_float32,
    forward_mode_active,
    has_constants,
    is_eager,
    lasting,
    plain_tensors,
    runs_own_code,
)
from equigeo.groups import SO, GroupSamples, LinearGroup, rotation_exp
from equigeo.nn import Tables
from equigeo.nn.state import SavedOptions
from equigeo.nn.tables import buffer_of

PaddingMode = Literal["zeros", "circular"]
NetworkName = Literal["siren", "gabor", "rbf"]
WindowName = Literal["compact", "disc", "sigmoid", "none"]
# Width of Gaussians around points that fill [-1, 1] and unit spheres. It is less than the distance
# of neighbors, 2 / 12^(1/3) = 0.87 for twelve points in three dimensions, so that they overlap.
_SOBOL_WIDTH = 0.7


@dataclass(frozen=True)
class KernelSpec:
    r"""Size, network and window of a convolution kernel, and the values beyond the image.

    Parameters
    ----------
    size : int
        Pixels along each axis of the spatial grid.
    network : {"siren", "gabor", "rbf"}
        Function of the relative coordinates x: layers :math:`\sin(\omega(Wx + b))`, then a linear
        map (Sitzmann et al., "Implicit Neural Representations with Periodic Activation Functions",
        2020); the same with envelopes :math:`\exp(-(Vx + c)^2)`, more local (Saragadam et al.,
        "WIRE: Wavelet Implicit Neural Representations", CVPR 2023); or a sum of Gaussians.
    window : {"compact", "disc", "sigmoid", "none"}
        Factor of relative coordinates ``(u, Y, R)``: ``compact`` is :math:`(1 - |u|^2)^2_+ (1 -
        |Y|^2/r^2)^3_+`, ``disc`` cuts at ``|u| = 1``, ``sigmoid`` is the published factor for GL+,
        ``sigmoid(2 - 2 |(u, Y, log R)|)``.
    extent : float
        Half the side of the spatial grid, in units of ``u``.
    stretch_reach : float
        Radius ``r`` of the compact window in relative log-stretch.
    hidden : int
        Width of the hidden layers of ``siren`` and ``gabor``.
    centers, group_centers : int
        Number of Gaussians of ``rbf``: along an axis of a kernel on space; in total if the kernel
        reads the group.
    continuous_rotation : bool
        Embed rotations as ``(cos, sin)`` or matrices; their logarithm jumps at half turns. Always
        on for ``rbf``.
    padding_mode : {"zeros", "circular"}
        Values of the cells that a layer adds by ``padding``.

    Examples
    --------
    >>> KernelSpec(7, network="rbf").window
    'compact'
    """

    size: int = 5
    network: NetworkName = "siren"
    window: WindowName = "compact"
    extent: float = 1.0
    stretch_reach: float = 1.0
    hidden: int = 60
    centers: int = 5
    group_centers: int = 12
    continuous_rotation: bool = False
    padding_mode: PaddingMode = "zeros"

    def __post_init__(self) -> None:
        if self.network not in ("siren", "gabor", "rbf"):
            raise ValueError(f"network must be siren, gabor or rbf, got {self.network!r}")
        if self.window not in ("compact", "disc", "sigmoid", "none"):
            raise ValueError(f"window must be compact, disc, sigmoid or none, got {self.window!r}")
        if self.padding_mode not in ("zeros", "circular"):
            raise ValueError(
                f'padding_mode must be "zeros" or "circular", got {self.padding_mode!r}'
            )
        convert_numbers(self)
        for name in ("size", "hidden", "centers", "group_centers"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be positive, got {getattr(self, name)}")
        for name in ("extent", "stretch_reach"):
            value = getattr(self, name)
            if isinstance(value, bool) or not 0 < value < math.inf:
                raise ValueError(f"{name} must be positive and finite, got {value}")

    @property
    def reach(self) -> float:
        """Relative log-stretch at which the kernel vanishes; infinite without a window."""
        return self.stretch_reach if self.window == "compact" else float("inf")

    def grid(self, n: int) -> Tensor:
        """Return the cell centers ``(size ** n, n)`` in n dimensions, the first axis slowest."""
        return kernel_grid(self.size, n, self.extent)

    def pixel_volume(self, n: int) -> float:
        """Return the volume of a cell of the grid, in units of ``u``."""
        return float(2 * self.extent / self.size) ** n


class _Kept(NamedTuple):
    """A sampled kernel with all that it depends on."""

    structure: Sequence[tuple[object, ...]]  # names, types and modules; names of tensors
    attributes: Sequence[dict[str, Any]]  # of modules
    tensors: Sequence[Tensor]  # copies
    kernel: Tensor


class KeepsKernels(SavedOptions, ABC):
    """Base of layers that keep the kernels of fixed samples in evaluation mode, on CPUs."""

    _kernels: Mapping[Any, _Kept] = MappingProxyType({})

    def train(self, mode: bool = True) -> Any:
        if mode:
            self._kernels = {}
        return super().train(mode)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Any:
        self._kernels = {}
        return super()._apply(fn, recurse)

    def __getstate__(self) -> dict[str, Any]:  # of copies and files
        return {name: value for name, value in vars(self).items() if name != "_kernels"}

    def _kept(
        self,
        evaluate: Callable[[], Tensor],
        network: nn.Module,  # its parameters and buffers are all that evaluate reads
        samples: Sequence[GroupSamples],
        options: Any,  # key of this kernel among those of the layer
    ) -> Tensor:
        """Return a kernel of samples, the kept one if all that it depends on is unchanged."""
        if self.training or torch.compiler.is_compiling() or autocast_active():
            return evaluate()
        if getattr(getattr(self, "quadrature", None), "chunk", None):  # saves memory instead
            return evaluate()
        modules = list(network.named_modules(remove_duplicate=False))
        parts = [part for _, part in modules]
        if any_global_hook() or not (_is_own(self) and all(map(_is_known, parts))):
            return evaluate()
        # Shared tensors are listed under every name: which layers share them is compared, too.
        named = [
            *network.named_parameters(remove_duplicate=False),
            *network.named_buffers(remove_duplicate=False),
        ]
        given = chain.from_iterable(map(_tensors, dict.fromkeys(samples)))
        tensors = [*(x for _, x in named), *given]
        recorded = torch.is_grad_enabled() and any(x.requires_grad for x in tensors)
        plain = [x.detach() for x in tensors]
        if recorded or forward_mode_active() or not all(map(is_eager, plain)):
            return evaluate()
        structure = [
            *((name, type(part), part) for name, part in modules),
            *((n,) for n, _ in named),
        ]
        kept, attributes = self._kernels.get(options), [*map(_attributes, [self, *parts])]
        if kept is not None and _unchanged(kept, structure, attributes, plain):
            return kept.kernel
        with lasting(plain[0]), torch.no_grad():
            kept = _Kept(structure, attributes, [x.clone() for x in plain], evaluate())
        if is_eager(kept.kernel) and kept.kernel.nbytes <= _MOST_BYTES:
            self._kernels = {**self._kernels, options: kept}
        return kept.kernel


_MOST_BYTES = 2**26  # of a kernel that is kept
_BITS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def _tensors(samples: GroupSamples) -> tuple[Tensor, ...]:
    return samples.h, samples.h_inv, samples.weight, samples.coordinates


def _is_own(layer: nn.Module) -> bool:
    """Return whether a layer evaluates its kernel by code of this package alone."""
    return type(layer).__module__.partition(".")[0] == "equigeo" and has_constants(layer)


def _is_known(part: nn.Module) -> bool:
    """Return whether a module maps equal tensors and attributes to equal values."""
    # Other modules may be random or stateful, as nn.Dropout.
    return not part.training and runs_own_code(part, *_KNOWN)


def _attributes(part: nn.Module) -> dict[str, Any]:
    return {name: value for name, value in vars(part).items() if not name.startswith("_")}


def _unchanged(
    kept: _Kept,
    structure: Sequence[tuple[object, ...]],
    attributes: Sequence[dict[str, Any]],
    tensors: Sequence[Tensor],
) -> bool:
    """Compare modules and attributes by identity, and tensors by value."""
    # Averages of weights are written to `.data`, which counts no version.
    return (
        kept.structure == structure
        and len(kept.tensors) == len(tensors)
        and all(
            a.keys() == b.keys() and all(a[name] is b[name] for name in a)
            for a, b in zip(kept.attributes, attributes, strict=True)
        )
        and all(map(_same_bits, kept.tensors, tensors))
    )


def _same_bits(a: Tensor, b: Tensor) -> bool:
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    bits = _BITS[a.element_size()]  # as integers, -0 and 0 differ, and equal NaN are equal
    return torch.equal(a.view(bits), b.view(bits))


@takes_integers
class AffineKernel(SavedOptions):
    """Kernel :math:`k(u, s)` of a displacement u and the coordinates s of a relative group element.

    Parameters
    ----------
    group : LinearGroup
        Group of the coordinates ``s``; its ``n`` is the dimension of space.
    out_features : int
        Values at each point.
    spec : KernelSpec
        Network and window.
    spatial, grouped : bool
        Whether the kernel reads ``u``, and ``s``.
    fan_in : int
        Products summed for one output of the convolution; sets the scale of the initial weights.
    cells : bool
        Whether the layer multiplies by the volume of a cell of the kernel grid, which the values
        compensate; False where it averages over points.

    Examples
    --------
    >>> from equigeo.groups import SL
    >>> kernel = AffineKernel(SL(2), 6, KernelSpec())
    >>> kernel(torch.zeros(7, 2), torch.zeros(7, 3)).shape
    torch.Size([7, 6])
    """

    def __init__(
        self,
        group: LinearGroup,
        out_features: int,
        spec: KernelSpec,
        *,
        spatial: bool = True,
        grouped: bool = True,
        fan_in: int = 1,
        cells: bool = True,
    ) -> None:
        super().__init__()
        if not (spatial or grouped):
            raise ValueError("a kernel must read space, the group, or both")
        self.group, self.spec, self.spatial, self.grouped = group, spec, spatial, grouped
        self.network = self._make_network(out_features, fan_in)
        # Layers multiply by the volume of a cell; initial weights are scaled for a sum over cells.
        self.gain = (spec.size / (2 * spec.extent)) ** group.n if spatial and cells else 1.0

    def _saved_options(self) -> Mapping[str, Any]:
        options = asdict(self.spec)
        del options["padding_mode"]  # of the layer, which saves it
        return {"group": str(self.group), "gain": self.gain, **options}

    def extra_repr(self) -> str:
        reads = [name for name, read in (("u", self.spatial), ("s", self.grouped)) if read]
        return f"{self.group}, reads {' and '.join(reads)}, window={self.spec.window!r}"

    @computes_in_float32
    def forward(
        self, u: Tensor | None = None, s: Tensor | None = None, factor: Tensor | None = None
    ) -> Tensor:
        """Evaluate the windowed kernel at ``u`` ``(..., n)`` and ``s`` ``(..., dimension)``.

        Arguments that the kernel does not read are omitted. For groups with reflections, ``s`` has
        one more column, the sign of the determinant. All values at a point are multiplied by its
        ``factor`` ``(...)``.
        """
        parts = [part for part in (u, self._embed(s)) if part is not None]
        dtype = next(self.network.parameters()).dtype
        # Evaluated in float32 where parameters are stored in half precision.
        coordinates = torch.cat(parts, dim=-1).to(computed_in(dtype))
        gain = None if self.gain == 1 else coordinates.new_tensor(self.gain)
        product = None
        for each in (self._window(u, s), factor, gain):
            if each is not None:
                each = each.to(coordinates)
                product = each if product is None else product * each
        inside = product is not None and runs_own_code(self.network, *_NETWORKS)
        values = self.network(coordinates, *([product] if inside else []))
        return (values if inside or product is None else values * product[..., None]).to(dtype)

    def _make_network(self, out_features: int, fan_in: int) -> nn.Module:
        group, spec = self.group, self.spec
        if spec.network == "rbf":
            centers, width = self._gaussian_centers()
            return RBFKernel(centers, width, out_features, fan_in)
        dimension = group.dimension
        if spec.continuous_rotation and group.has_rotations:
            dimension = group.symmetric_dimension + (2 if group.n == 2 else group.n**2)
        dimension += int(group.has_reflections)
        features = (group.n if self.spatial else 0) + (dimension if self.grouped else 0)
        network = SirenKernel if spec.network == "siren" else GaborKernel
        return network(features, out_features, hidden=spec.hidden, fan_in=fan_in)

    @plain_tensors()
    def _gaussian_centers(self) -> tuple[Tensor, float]:
        """Return centers on a grid in space, spread evenly over the group if it is an input."""
        group, spec = self.group, self.spec
        if not self.grouped:
            # Neighbors are two deviations apart: half way, both have the value exp(-1/2) = 0.61.
            grid = kernel_grid(spec.centers, group.n)
            return grid[torch.linalg.vector_norm(grid, dim=1) < 1], 1 / spec.centers
        turns_alone = group == SO(2)
        if not self.spatial and turns_alone:
            # Neighbors are 1.5 deviations apart: half way, both have the value 0.75.
            step = 2 * math.pi / spec.group_centers
            angles = step * torch.arange(spec.group_centers, dtype=torch.float64)
            return embed_rotation(group, angles[:, None]), step / 1.5
        return self._sobol_centers(), _SOBOL_WIDTH

    def _sobol_centers(self) -> Tensor:
        """Return few centers in many dimensions from a fixed low-discrepancy sequence."""
        group, spec = self.group, self.spec
        # Checkpoints do not contain the centers, hence the fixed seed.
        sobol = torch.quasirandom.SobolEngine(
            group.dimension + int(group.has_reflections) + (group.n if self.spatial else 0),
            scramble=True,
            seed=0,
        )
        points = 2 * sobol.draw(spec.group_centers, dtype=torch.float64) - 1
        rotations = points[:, group.symmetric_dimension : group.dimension] * math.pi
        # Only up to half the reach: near its end, the compact window suppresses a Gaussian.
        stretches = points[:, : group.symmetric_dimension] * spec.stretch_reach / 2
        end = group.dimension + int(group.has_reflections)
        signs = points[:, group.dimension : end].sign()
        embedded = embed_rotation(group, torch.cat([stretches, rotations, signs], dim=1))
        return torch.cat([points[:, end:], embedded], dim=1)

    def _embed(self, s: Tensor | None) -> Tensor | None:
        if s is None or not (self.spec.continuous_rotation or self.spec.network == "rbf"):
            return s
        return embed_rotation(self.group, s)

    def _window(self, u: Tensor | None, s: Tensor | None) -> Tensor | None:
        name = self.spec.window
        if name == "none":
            return None
        if name == "sigmoid":  # the window of the published layers over GL+
            turned = None if s is None else s[..., : self.group.dimension]
            everything = torch.cat([part for part in (u, turned) if part is not None], dim=-1)
            return torch.sigmoid(2 - 2 * torch.linalg.vector_norm(everything, dim=-1))
        square = None if u is None else u.square().sum(-1)
        if name == "disc":
            return None if square is None else (square <= 1).to(square.dtype)
        # (1 - |u|^2)^2 (1 - |Y|^2 / r^2)^3: powers above 1 make the kernel smooth at its ends.
        window = None if square is None else (1 - square).clamp_min(0).square()
        # Only stretches have a window: rotations are compact.
        if s is not None and self.group.symmetric_dimension > 0:
            stretch = s[..., : self.group.symmetric_dimension].square().sum(-1)
            factor = (1 - stretch / self.spec.stretch_reach**2).clamp_min(0) ** 3
            window = factor if window is None else window * factor
        return window


def scaled_values(kernel: nn.Module, factor: Tensor, *places: Tensor, **named: Tensor) -> Tensor:
    """Return the values of a kernel times a factor (...) of their points."""
    if runs_own_code(kernel, AffineKernel):  # which multiplies fewer numbers
        return kernel(*places, **named, factor=factor)
    values = kernel(*places, **named)
    return values * factor[..., None].to(values)


def kernel_grid(
    size: int,  # cells along each axis
    n: int,  # dimension of space
    extent: float = 1.0,  # half the edge length e
) -> Tensor:  # (size ** n, n), float64; coordinate a belongs to spatial axis a of features
    """Return the cell centers of a cube :math:`[-e, e]^n`, the first coordinate slowest."""
    if size < 1 or not extent > 0:
        raise ValueError(f"size and extent must be positive, got {size} and {extent}")
    # Cell centers: a sum over them times the cell volume is the midpoint rule.
    axis = (2 * torch.arange(size, dtype=torch.float64, device="cpu") + 1 - size) / size * extent
    return torch.cartesian_prod(*[axis] * n).view(-1, n)


def embed_rotation(
    group: LinearGroup,
    s: Tensor,  # (..., dimension), with the sign of the determinant for reflections
) -> Tensor:  # (..., symmetric dimension + 2 or + n * n)
    """Replace rotation coordinates by a continuous embedding: ``(cos, sin)`` or the matrix."""
    count = group.symmetric_dimension
    if not group.has_rotations:
        return s
    # The logarithm of a rotation jumps at half turns; its cosine and sine do not.
    rotation = s[..., count : group.dimension]
    if group.n == 2:
        embedded = torch.cat([rotation.cos(), rotation.sin()], dim=-1)
    else:
        embedded = rotation_exp(rotation).flatten(-2)
    return torch.cat([s[..., :count], embedded, s[..., group.dimension :]], dim=-1)


@takes_integers
class RBFKernel(SavedOptions):
    """Sum of Gaussians ``sum_m W_m exp(-|x - c_m|^2 / 2 sigma^2)``."""

    def __init__(
        self,
        centers: Tensor,  # (M, in_features)
        width: float,  # standard deviation; about the distance of neighboring centers
        out_features: int,
        fan_in: int = 1,  # products summed for one output; values have variance about 1 / fan_in
    ) -> None:
        super().__init__()
        if centers.ndim != 2 or len(centers) == 0:
            raise ValueError(f"centers must be (M, features), M > 0, got {tuple(centers.shape)}")
        if not width > 0 or out_features < 1 or fan_in < 1:
            raise ValueError(
                "width, out_features and fan_in must be positive, "
                f"got {width}, {out_features}, {fan_in}"
            )
        self.width = width
        self.tables = Tables(centers=centers.double())
        # Weights of variance 1 would give values of variance power, on average over the centers.
        power = self._gaussians(self.centers).square().sum(1).mean()
        weight = torch.randn(out_features, len(centers)) * (power * fan_in).rsqrt()
        self.weight = nn.Parameter(weight)

    def _saved_options(self) -> Mapping[str, Any]:
        return {"width": float(self.width)}

    @property
    def centers(self) -> Tensor:
        """Centers of the Gaussians, (M, in_features), in the dtype of the module."""
        return buffer_of(self.tables, "centers")

    def _gaussians(self, x: Tensor) -> Tensor:
        # Not |x|^2 - 2 x c + |c|^2, which cancels next to a center, and not cdist, which has no
        # forward mode and no second derivatives.
        square = x.new_zeros(x.shape[0], self.centers.shape[0])
        for k, c in enumerate(self.tables["centers", x.dtype].unbind(1)):
            square = square + ((x[:, k, None] - c) / self.width).square()
        return torch.exp(-0.5 * square)

    def forward(self, x: Tensor, factor: Tensor | None = None) -> Tensor:
        """Evaluate at relative coordinates ``(..., in_features)``, times a factor ``(...)``."""
        wide = x.to(computed_in(x.dtype)).reshape(-1, self.centers.shape[1])
        gaussians = self._gaussians(wide).view(*x.shape[:-1], len(self.centers))
        gaussians = gaussians if factor is None else gaussians * factor[..., None]
        return F.linear(gaussians, self.weight.to(wide.dtype)).to(x.dtype)


@takes_integers
class SirenKernel(nn.Module):
    """Layers ``sin(omega (W x + b))``, then a linear map."""

    def __init__(
        self,
        in_features: int,
        out_features: int,
        hidden: int = 60,
        layers: int = 3,
        omega: float = 10.0,  # as in the published layers
        fan_in: int = 1,
    ) -> None:
        super().__init__()
        self.omega = omega
        widths = _pairs(in_features, hidden, layers, out_features=out_features, fan_in=fan_in)
        sines = [nn.Linear(a, b) for a, b in widths]
        self.last = nn.Linear(hidden, out_features)
        # Sitzmann et al., section 3.2. Uniform in +-b has variance b^2 / 3, and a sine of arguments
        # spread over many turns has 1 / 2: with b = sqrt(6 / hidden) a sum of hidden products has
        # variance 1, whatever the depth. The first layer reads coordinates.
        nn.init.uniform_(sines[0].weight, -1 / in_features, 1 / in_features)
        for layer in sines[1:]:
            _initialize(layer, math.sqrt(6 / hidden) / omega)
        # Values of variance 1 / fan_in keep the variance of the features that are convolved.
        _initialize(self.last, math.sqrt(6 / hidden) / math.sqrt(fan_in))
        self.hidden = nn.ModuleList(sines)

    def forward(self, x: Tensor, factor: Tensor | None = None) -> Tensor:
        """Evaluate at relative coordinates ``(..., in_features)``, times a factor ``(...)``."""
        dtype, x = x.dtype, x.to(computed_in(x.dtype))
        for layer in self.hidden:
            x = torch.sin(self.omega * linear_of(layer, x))
        return _scaled_linear(self.last, x, factor).to(dtype)


def linear_of(layer: nn.Module, x: Tensor) -> Tensor:
    """Apply a linear layer in the dtype of ``x``: phases have no digits left in half precision."""
    weight, bias = cast("Tensor", layer.weight), cast("Tensor | None", layer.bias)
    if weight.dtype == x.dtype:
        return layer(x)
    return F.linear(x, weight.to(x.dtype), None if bias is None else bias.to(x.dtype))


def _scaled_linear(layer: nn.Linear, x: Tensor, factor: Tensor | None) -> Tensor:
    """Apply a linear layer and multiply by a factor (...), without a pass over its results."""
    if factor is None or layer.bias is None or not runs_own_code(layer, nn.Linear):
        values = linear_of(layer, x)
        return values if factor is None else values * factor[..., None]
    # The bias is the weight of one more feature.
    factor = factor[..., None].expand(*x.shape[:-1], 1)
    weight = torch.cat([layer.weight, layer.bias[:, None]], dim=1)
    return F.linear(torch.cat([x * factor, factor], dim=-1), weight.to(x.dtype))


def _pairs(in_features: int, hidden: int, layers: int, **sizes: int) -> list[tuple[int, int]]:
    """Return the widths before and after each hidden layer; raise if one is not positive."""
    sizes |= {"in_features": in_features, "hidden": hidden, "layers": layers}
    for name, value in sizes.items():
        if value < 1:
            raise ValueError(f"{name} must be positive, got {value}")
    return list(pairwise([in_features, *[hidden] * layers]))


def _initialize(layer: nn.Linear, bound: float) -> None:
    nn.init.uniform_(layer.weight, -bound, bound)
    nn.init.zeros_(layer.bias)


@takes_integers
class GaborKernel(nn.Module):
    """Layers ``sin(omega (W x + b)) exp(-(sigma (V x + c))^2)``, then a linear map."""

    def __init__(
        self,
        in_features: int,
        out_features: int,
        hidden: int = 60,
        layers: int = 2,
        omega: float = 10.0,
        sigma: float = 1.0,
        fan_in: int = 1,
    ) -> None:
        super().__init__()
        self.omega, self.sigma = omega, sigma
        pairs = _pairs(in_features, hidden, layers, out_features=out_features, fan_in=fan_in)
        waves = [nn.Linear(a, b) for a, b in pairs]
        # As in SirenKernel. Envelopes are at most 1.
        bound = math.sqrt(6 / hidden) / omega
        for wave in waves[1:]:
            nn.init.uniform_(wave.weight, -bound, bound)
        self.wave = nn.ModuleList(waves)
        self.envelope = nn.ModuleList(nn.Linear(a, b) for a, b in pairs)
        self.last = nn.Linear(hidden, out_features)
        _initialize(self.last, math.sqrt(6 / hidden / fan_in))

    def forward(self, x: Tensor, factor: Tensor | None = None) -> Tensor:
        """Evaluate at relative coordinates ``(..., in_features)``, times a factor ``(...)``."""
        dtype, x = x.dtype, x.to(computed_in(x.dtype))
        for wave, envelope in zip(self.wave, self.envelope, strict=True):
            widths = self.sigma * linear_of(envelope, x)
            x = torch.sin(self.omega * linear_of(wave, x)) * torch.exp(-widths.square())
        return _scaled_linear(self.last, x, factor).to(dtype)


_NETWORKS = (RBFKernel, SirenKernel, GaborKernel)
# Types of the modules of kernels that layers keep.
_KNOWN = (AffineKernel, *_NETWORKS, Tables, nn.Linear, nn.ModuleList)
