"""Every figure of README and of the documents, and the record that it comes from.

A line holds what a page says, with ``{}`` for each number, and what computes the numbers; see
:mod:`bench.figures`. Whoever changes a figure measures it, commits the record and changes the page;
``python -m bench.figures`` says what is left to do.
"""

from __future__ import annotations

from bench.claims.clouds import CLOUDS
from bench.claims.comparison import COMPARISON
from bench.claims.cuda import CUDA
from bench.claims.digits import DIGITS
from bench.claims.headlines import HEADLINES
from bench.claims.kernels import KERNELS
from bench.claims.meshes import MESHES
from bench.claims.models import MODELS
from bench.claims.potentials import POTENTIALS
from bench.claims.products import PRODUCTS
from bench.claims.shrec11 import SHREC11
from bench.claims.values import FIGURES

CLAIMS = [
    *MESHES,
    *SHREC11,
    *POTENTIALS,
    *PRODUCTS,
    *MODELS,
    *KERNELS,
    *DIGITS,
    *CLOUDS,
    *COMPARISON,
    *CUDA,
    *HEADLINES,
]
# Page, words, and why no record stands behind them. The list may only become shorter.
EXCEPTIONS = [
    ("docs/kernels.md", "freed results of 4 MiB and more", "a setting"),
    (FIGURES, "PD-MeshNet reports 99.7 % on split 16 and 99.1 % on split 10", "Milano et al. 2020"),
    (
        FIGURES,
        "published attention model reports 0.34 % for greedy tours",
        "Kool et al. 2019, table 1",
    ),
]
