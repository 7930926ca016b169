"""Models that the tests of from_torch build: ResNet-50, MobileNetV2, a transformer block with a cache, a U-Net."""

from __future__ import annotations

import torch
from torch import nn


class Bottleneck(nn.Module):
    def __init__(self, channels: int, width: int, stride: int) -> None:
        super().__init__()
        self.one, self.two = (
            nn.Conv2d(channels, width, 1, bias=False),
            nn.Conv2d(width, width, 3, stride, 1, bias=False),
        )
        self.three = nn.Conv2d(width, 4 * width, 1, bias=False)
        self.norms = nn.ModuleList([nn.BatchNorm2d(width), nn.BatchNorm2d(width), nn.BatchNorm2d(4 * width)])
        self.short = nn.Conv2d(channels, 4 * width, 1, stride, bias=False) if channels != 4 * width else None
        self.short_norm = nn.BatchNorm2d(4 * width)

    def forward(self, x):
        y = torch.relu(self.norms[0](self.one(x)))
        y = torch.relu(self.norms[1](self.two(y)))
        return torch.relu(self.norms[2](self.three(y)) + (x if self.short is None else self.short_norm(self.short(x))))


class ResNet50(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem, self.norm = nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64)
        blocks, channels = [], 64
        for width, count, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
            for place in range(count):
                blocks.append(Bottleneck(channels, width, stride if place == 0 else 1))
                channels = 4 * width
        self.blocks, self.fc = nn.Sequential(*blocks), nn.Linear(2048, 1000)

    def forward(self, x):
        x = nn.functional.max_pool2d(torch.relu(self.norm(self.stem(x))), 3, 2, 1)
        return self.fc(torch.flatten(nn.functional.adaptive_avg_pool2d(self.blocks(x), 1), 1))


def inverted(channels: int, outputs: int, stride: int, factor: int) -> nn.Sequential:
    width, layers = channels * factor, []
    if factor > 1:
        layers += [nn.Conv2d(channels, width, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU6()]
    layers += [nn.Conv2d(width, width, 3, stride, 1, groups=width, bias=False), nn.BatchNorm2d(width), nn.ReLU6()]
    return nn.Sequential(*layers, nn.Conv2d(width, outputs, 1, bias=False), nn.BatchNorm2d(outputs))


class MobileNetV2(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 32, 3, 2, 1, bias=False), nn.BatchNorm2d(32), nn.ReLU6())
        rows = (
            (1, 16, 1, 1),
            (6, 24, 2, 2),
            (6, 32, 3, 2),
            (6, 64, 4, 2),
            (6, 96, 3, 1),
            (6, 160, 3, 2),
            (6, 320, 1, 1),
        )
        blocks, channels = [], 32
        for factor, outputs, count, stride in rows:
            for place in range(count):
                blocks.append(inverted(channels, outputs, stride if place == 0 else 1, factor))
                channels = outputs
        self.blocks = nn.ModuleList(blocks)
        self.head, self.fc = nn.Conv2d(320, 1280, 1, bias=False), nn.Linear(1280, 1000)

    def forward(self, x):
        x = self.stem(x)
        for block in self.blocks:
            y = block(x)
            x = x + y if x.shape == y.shape else y
        return self.fc(torch.nn.functional.relu6(self.head(x)).mean((2, 3)))


class Block(nn.Module):
    """A transformer block that reads and extends a cache of keys and values."""

    def __init__(self, width: int = 64, heads: int = 4, words: int = 100) -> None:
        super().__init__()
        self.heads, self.table = heads, nn.Embedding(words, width)
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, ids, keys, values):
        x = self.table(ids)
        b, n, w = x.shape
        q, k, v = (
            part.view(b, n, self.heads, w // self.heads).transpose(1, 2)
            for part in self.qkv(self.first(x)).chunk(3, dim=-1)
        )
        keys, values = torch.cat([keys, k], 2), torch.cat([values, v], 2)
        y = nn.functional.scaled_dot_product_attention(q, keys, values)
        x = x + self.out(y.transpose(1, 2).reshape(b, n, w))
        return x + self.down(nn.functional.gelu(self.up(self.second(x)))), keys, values


class UNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.down = nn.ModuleList([nn.Conv2d(1, 8, 3, padding=1), nn.Conv2d(8, 16, 3, padding=1)])
        self.middle = nn.Conv2d(16, 32, 3, padding=1, dilation=1)
        self.up = nn.ModuleList([nn.ConvTranspose2d(32, 16, 2, 2), nn.ConvTranspose2d(16, 8, 4, 2, 1)])
        self.join = nn.ModuleList([nn.Conv2d(32, 16, 3, padding=1), nn.Conv2d(16, 8, 3, padding=1)])
        self.end = nn.Conv2d(8, 2, 1)

    def forward(self, x):
        skips = []
        for layer in self.down:
            x = torch.relu(layer(x))
            skips.append(x)
            x = nn.functional.max_pool2d(x, 2)
        x = torch.relu(self.middle(x))
        for up, join in zip(self.up, self.join, strict=True):
            x = torch.relu(join(torch.cat([up(x), skips.pop()], 1)))
        return self.end(x)


def cases():
    """Return name -> (model, example inputs), on the meta device."""
    empty = lambda *shape, dtype=torch.float32: torch.empty(*shape, dtype=dtype, device="meta")  # noqa: E731
    with torch.device("meta"):
        models = {"resnet50": ResNet50(), "mobilenet_v2": MobileNetV2(), "block": Block(), "unet": UNet()}
    inputs = {
        "resnet50": (empty(1, 3, 224, 224),),
        "mobilenet_v2": (empty(1, 3, 224, 224),),
        "block": (empty(1, 1, dtype=torch.int64), empty(1, 4, 31, 16), empty(1, 4, 31, 16)),
        "unet": (empty(1, 1, 64, 64),),
    }
    return {name: (model.eval(), inputs[name]) for name, model in models.items()}
