"""Every public layer and op in every mode of PyTorch, in one table that leaves none out."""
