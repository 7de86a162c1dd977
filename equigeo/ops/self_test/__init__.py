"""Tests of the kernels of a CUDA device before anybody relies on them."""
