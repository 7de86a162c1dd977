"""Convolution kernels as functions of relative group elements."""
