"""Small mistakes made on purpose in the CUDA sources, each of which some check must notice."""
