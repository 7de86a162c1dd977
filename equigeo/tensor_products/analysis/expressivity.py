"""Number of equivariant bilinear maps that a product reaches."""

from __future__ import annotations

import itertools
import math

import torch
from torch import Tensor

from equigeo.reps import Irreps
from equigeo.reps.irreps import Irrep
from equigeo.tensor_products.analysis.coefficients import (
    embedded_probes,
    in_double,
    path_coefficients,
    project,
    single_irreps,
)
from equigeo.tensor_products.instructions import kinds
from equigeo.tensor_products.products.base import Product
from equigeo.tensor_products.products.path_product import PathProduct

_POINTS = 2  # the rank is generic at almost every point; two reduce the risk
_RANK = 1e-9  # of the largest singular value of a Jacobian with rows of unit length


def expressivity(
    product: Product,
    irreps_in1: Irreps | str | None = None,
    irreps_in2: Irreps | str | None = None,
    irreps_out: Irreps | str | None = None,
    *,
    channels: int = 1,
) -> int:
    r"""Count the degrees of freedom of a product between equivariant linear layers.

    The dimension of the set of maps :math:`L_Z \circ T \circ (L_X \times L_Y)` over all equivariant
    linear maps and all weights of :math:`T`: the rank of the Jacobian of the path coefficients at a
    random point, in float64 (Xie et al., "The Price of Freedom", ICML 2025). For a Clebsch-Gordan
    product it is the number of paths.

    Parameters
    ----------
    product : Product
        Weighted or not; copied, neither moved nor cast.
    irreps_in1, irreps_in2, irreps_out : Irreps or str, optional
        Outer irreps of the linear layers. By default one copy of each irrep of the product.
    channels : int
        Copies of the product side by side, each with linear layers and weights of its own. With
        enough of them every map with interactable triples is reached (Terracini, 1911).

    Examples
    --------
    >>> import equigeo.tensor_products as tp
    >>> gaunt = tp.GauntTensorProduct(2, 2, 4)
    >>> tp.expressivity(gaunt), tp.expressivity(gaunt, channels=2)  # of 14 even paths
    (9, 14)
    """
    if channels < 1:
        raise ValueError(f"channels must be at least 1, got {channels}")
    given = irreps_in1, irreps_in2, irreps_out
    own = product.irreps_in1, product.irreps_in2, product.irreps_out
    targets = [
        kinds(rep) if target is None else [ir for ir, _ in single_irreps(Irreps(target))]
        for target, rep in zip(given, own, strict=True)
    ]
    product = in_double(product)
    is_weighted = product.weight_numel > 0 or any(True for _ in product.parameters())
    generator = torch.Generator().manual_seed(0)
    ranks = []
    with torch.device("cpu"):  # where the generator draws, for any default device
        fixed = None if is_weighted else path_coefficients(product)
        for _ in range(_POINTS):
            tangents = [_jacobian(product, fixed, targets, generator) for _ in range(channels)]
            ranks.append(_rank(torch.cat(tangents)))
    return max(ranks)


def _jacobian(
    product: Product,
    coefficients: Tensor | None,  # measured coefficients of a product without weights
    targets: list[list[Irrep]],
    generator: torch.Generator,
) -> Tensor:
    """Return derivatives (parameters, coefficients of the composed map) at a random point."""
    own = product.irreps_in1, product.irreps_in2, product.irreps_out
    mixers = [_mixer(rep, target, generator) for rep, target in zip(own, targets, strict=True)]
    if coefficients is not None:
        return _linear_rows(coefficients, mixers)
    weight = None
    if product.weight_numel:
        weight = _away_from_zero((product.weight_numel,), generator)
    else:
        for parameter in product.parameters():
            parameter.data = _away_from_zero(parameter.shape, generator)
    # The chain rule: derivatives by the linear maps, and by the weights of the product.
    linear = _linear_rows(path_coefficients(product, weight), mixers)
    return torch.cat([linear, _weight_rows(product, weight, mixers, targets)])


def _mixer(irreps: Irreps, target: list[Irrep], generator: torch.Generator) -> Tensor:
    """Return a random equivariant map (single irreps, target), one number per equal irreps."""
    singles = [ir for ir, _ in single_irreps(irreps)]
    equal = torch.tensor([[a == b for b in target] for a in singles], dtype=torch.float64)
    equal = equal.reshape(len(singles), len(target))
    return equal * _away_from_zero(equal.shape, generator)


def _away_from_zero(shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
    """Return random numbers of modulus 0.5 to 1.5, so that products of several keep their scale."""
    number = torch.rand(shape, dtype=torch.float64, generator=generator) * 2 - 1
    return number + number.sign() / 2


def _linear_rows(kappa: Tensor, mixers: list[Tensor]) -> Tensor:
    """Return derivatives of ``w_ijk = kappa_abc X_ai Y_bj Z_ck`` by the entries of X, Y and Z."""
    x, y, z = mixers
    shape = x.shape[1], y.shape[1], z.shape[1]
    rows = [kappa.new_zeros(0, *shape)]
    slopes = (
        torch.einsum("abc,bj,ck->ajk", kappa, y, z),
        torch.einsum("abc,ai,ck->bik", kappa, x, z),
        torch.einsum("abc,ai,bj->cij", kappa, x, y),
    )
    for axis, (mixer, slope) in enumerate(zip(mixers, slopes, strict=True)):
        own, target = mixer.nonzero(as_tuple=True)
        # One row per entry of a mixer: it moves the coefficients that its irreps take part in.
        block = kappa.new_zeros(len(own), *shape)
        block.movedim(axis + 1, 1)[torch.arange(len(own)), target] = slope[own]
        rows.append(block)
    return torch.cat(rows).flatten(1)


def _weight_rows(
    product: Product, weight: Tensor | None, mixers: list[Tensor], targets: list[list[Irrep]]
) -> Tensor:
    """Return derivatives of the same coefficients by the weights of the product."""
    x = torch.einsum("ai,asd->isd", mixers[0], embedded_probes(product.irreps_in1, 0))
    y = torch.einsum("bj,bsd->jsd", mixers[1], embedded_probes(product.irreps_in2, 1))
    if isinstance(product, PathProduct) and weight is not None:
        return _path_weight_rows(product, weight, (x, y), mixers[2], targets)
    parameters = list(product.parameters())
    rows = x.new_zeros(len(x), len(y), len(targets[2]), sum(p.numel() for p in parameters))
    # Pair by pair, so that each backward pass covers the graph of one pair only.
    for i, j in itertools.product(range(len(x)), range(len(y))):
        pair = [targets[0][i : i + 1], targets[1][j : j + 1], targets[2]]
        z = product(x[i : i + 1, None], y[None, j : j + 1])
        coefficients = (project(z, pair[0], pair[1], product)[0] @ mixers[2])[0, 0]
        for k in coefficients.nonzero().flatten().tolist():
            slopes = torch.autograd.grad(
                coefficients[k],
                parameters,
                retain_graph=True,
                allow_unused=True,
                materialize_grads=True,
            )
            rows[i, j, k] = torch.cat([slope.flatten() for slope in slopes])
    return rows.flatten(0, 2).mT


def _path_weight_rows(
    product: PathProduct,
    weight: Tensor,
    probes: tuple[Tensor, Tensor],
    mixer: Tensor,
    targets: list[list[Irrep]],
) -> Tensor:
    """Return all weight derivatives by one backward pass per copy of an irrep in the targets."""
    # Each pair of probes has its own weights, so that derivatives of pairs stay separate. Each
    # weight feeds one output irrep, so that different irreps may be summed.
    fed = [
        product.irreps_out.terms[path.i_out][1]
        for path in product.instructions
        if path.has_weight
        for _ in range(math.prod(path.path_shape))
    ]
    x, y = probes
    # One copy of the weights per pair, so that their gradient separates the pairs.
    leaf = weight.expand(len(x), len(y), 1, -1).clone().requires_grad_()
    # By the reference, which takes weights per pair whether or not the product shares them.
    pairs = x[:, None], y[None], leaf
    z = product._forward_reference(*pairs, product.check_inputs(*pairs))
    coefficients = project(z, targets[0], targets[1], product)[0] @ mixer
    rows = coefficients.new_zeros(len(weight), *coefficients.shape)
    copy = [targets[2][:k].count(ir) for k, ir in enumerate(targets[2])]
    for number in set(copy):
        together = [k for k in range(len(copy)) if copy[k] == number]
        (slope,) = torch.autograd.grad(coefficients[..., together].sum(), leaf, retain_graph=True)
        for k in together:
            own = torch.tensor([ir == targets[2][k] for ir in fed])
            rows[own, ..., k] = slope[:, :, 0, own].movedim(-1, 0)
    return rows.flatten(1)


def _rank(jacobian: Tensor) -> int:
    """Return the rank after scaling coefficients to comparable size."""
    columns = jacobian[:, jacobian.any(0)]
    if not columns.numel():
        return 0
    # Columns of unit length: a coefficient counts as reached however small it is.
    values = torch.linalg.svdvals(columns / columns.norm(dim=0))
    return int((values > _RANK * values[0]).sum())
