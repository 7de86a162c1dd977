"""Digits: networks, training, accuracy and the change of the logits."""
