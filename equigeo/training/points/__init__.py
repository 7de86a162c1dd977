"""Point clouds: networks with presets, training, evaluation of transformed copies."""
