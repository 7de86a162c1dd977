"""A small image model with the interface of AffineResNet, and data to train it on."""

from dataclasses import dataclass
from unittest import mock

import numpy as np
import torch
from torch import nn

from equigeo._core.config import Config
from equigeo.tasks.affnist.task import IMAGE_MODELS
from tests.datasets.digits import synthetic_digits, write_mnist


@dataclass(frozen=True)
class ImageNetConfig(Config):
    num_classes: int
    width: int = 6
    pooled: bool = True
    dropout: float = 0.2


class AffineResNet(nn.Module):
    """Blocks of ink, pooled; the plain one sees where they are, the default one does not."""

    def __init__(self, num_classes, width=6, pooled=True, dropout=0.2):
        super().__init__()
        self.config = ImageNetConfig(num_classes, width, pooled, dropout)
        self.conv = nn.Conv2d(1, width, 5, stride=5)
        self.pool = nn.AdaptiveMaxPool2d(1 if pooled else 4)
        self.drop = nn.Dropout(dropout)
        self.head = nn.Linear(width * (1 if pooled else 16), num_classes)

    @classmethod
    def preset(cls, name, num_classes=10):
        return cls(num_classes, pooled=name != "paper")

    @classmethod
    def from_config(cls, config):
        return cls(**ImageNetConfig.from_dict(config).to_dict())

    def forward(self, images):
        return self.head(self.drop(self.pool(self.conv(images)).flatten(1)))


def installed(models=IMAGE_MODELS):
    """Put the stand-in where the presets are looked up, for a while."""
    return mock.patch.dict(models, default=AffineResNet, paper=AffineResNet)


def striped_digits(number, seed=0):
    """Digits of two kinds that a pooled network can tell apart: even labels are darker."""
    images, _ = synthetic_digits(number, seed)
    labels = torch.arange(number) % 2
    images = torch.where(labels.bool()[:, None, None], images, (images > 0) * 60)
    return images.to(torch.uint8), labels


def write_tiny_mnist(folder, train=48, test=12):
    write_mnist(folder, *striped_digits(train), "train")
    return write_mnist(folder, *striped_digits(test, seed=1), "t10k")


@dataclass(frozen=True)
class PointNetConfig(Config):
    num_classes: int
    invariant: bool = True
    dropout: float = 0.1


class PointNet(nn.Module):
    """Points pooled: by their radii alone (invariant to rotations), or by coordinates as well."""

    def __init__(self, num_classes, invariant=True, dropout=0.1):
        super().__init__()
        self.config = PointNetConfig(num_classes, invariant, dropout)
        self.invariant = invariant
        self.layers = nn.Sequential(nn.Linear(1 if invariant else 4, 16), nn.ReLU())
        self.head = nn.Sequential(nn.Dropout(dropout), nn.Linear(32, num_classes))

    @classmethod
    def preset(cls, name, num_classes):
        return cls(num_classes)

    @classmethod
    def from_config(cls, config):
        return cls(**PointNetConfig.from_dict(config).to_dict())

    def forward(self, points):
        centred = points - points.mean(dim=1, keepdim=True)
        radii = centred.norm(dim=2, keepdim=True)
        x = self.layers(radii if self.invariant else torch.cat([radii, centred], dim=2))
        return self.head(torch.cat([x.amax(dim=1), x.mean(dim=1)], dim=1))


CLOUD_CLASSES = ("ball", "rod", "shell")


def write_tiny_clouds(folder, train=8, test=4, points=48):
    folder.mkdir(exist_ok=True, parents=True)
    for name, number, seed in (("train", train, 0), ("test_a", test, 1)):
        rng = np.random.default_rng(seed)
        clouds = rng.normal(size=(3, number, points, 3))
        clouds[2] /= np.linalg.norm(clouds[2], axis=-1, keepdims=True)
        clouds[1, :, :, 1:] *= 0.1
        clouds /= np.abs(clouds).max(axis=(2, 3), keepdims=True)
        np.savez(
            folder / f"modelnet10_{name}.npz",
            points=np.round(clouds.reshape(-1, points, 3) * 32767).astype(np.int16),
            label=np.repeat(np.arange(3), number).astype(np.uint8),
            classes=np.array(CLOUD_CLASSES),
        )
    return folder
