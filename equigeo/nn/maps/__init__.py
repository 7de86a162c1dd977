"""Maps between any representations of one group: what linear layers and products share."""
