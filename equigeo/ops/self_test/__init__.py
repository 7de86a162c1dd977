"""Tests of the kernels of a CUDA device before their first use."""
