"""Torch models to be exported by tracing, with free axes, so that the graph computes its shapes: a channel shuffle, an
encoder with split heads and a mask, shifted windows, and a detector with enlarging and a recurrence."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional


class Shuffle(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Conv2d(8, 16, 1, groups=2), nn.Conv2d(16, 24, 1, groups=2)
        self.depth = nn.Conv2d(16, 16, 3, 2, 1, groups=16)

    def forward(self, x):
        x = self.first(x)
        n, c, h, w = x.shape
        x = x.view(n, 2, c // 2, h, w).transpose(1, 2).contiguous().view(n, c, h, w)
        low, high = x.chunk(2, 1)
        return self.last(self.depth(torch.cat([high, low], 1))).mean([2, 3])


class Encoder(nn.Module):
    def __init__(self, width: int = 32, heads: int = 4) -> None:
        super().__init__()
        self.heads, self.words, self.places = heads, nn.Embedding(50, width), nn.Embedding(64, width)
        self.register_buffer("ids", torch.arange(64)[None])
        self.q, self.k, self.v, self.out, self.pool = (nn.Linear(width, width) for _ in range(5))
        self.up, self.down, self.norm = nn.Linear(width, 4 * width), nn.Linear(4 * width, width), nn.LayerNorm(width)

    def split(self, x):
        return x.view(x.size(0), x.size(1), self.heads, x.size(2) // self.heads).permute(0, 2, 1, 3)

    def forward(self, words, mask):
        n, length = words.shape
        x = self.words(words) + self.places(self.ids[:, :length])
        hidden = (1.0 - mask[:, None, None, :].to(x.dtype).expand(n, 1, length, length)) * -10000.0
        q, k, v = self.split(self.q(x)), self.split(self.k(x)), self.split(self.v(x))
        scores = torch.matmul(q, k.transpose(-1, -2)) / (q.shape[-1] ** 0.5) + hidden
        y = torch.matmul(scores.softmax(-1), v).permute(0, 2, 1, 3).contiguous()
        x = self.norm(x + self.out(y.view(y.size()[:-2] + (x.shape[-1],))))
        x = self.norm(x + self.down(functional.gelu(self.up(x))))
        return torch.tanh(self.pool(x[:, 0]))


class Windows(nn.Module):
    """Attention in shifted windows of 4 x 4, then a merge of four neighbours."""

    def __init__(self, width: int = 16, heads: int = 2) -> None:
        super().__init__()
        self.heads, self.patches = heads, nn.Conv2d(3, width, 4, 4)
        self.qkv, self.out, self.norm = nn.Linear(width, 3 * width), nn.Linear(width, width), nn.LayerNorm(width)
        self.merge = nn.Linear(4 * width, 2 * width, bias=False)

    def attend(self, y):
        n, c = y.shape[0], y.shape[2]
        qkv = self.qkv(y).reshape(n, 16, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
        q, k, v = qkv.unbind(0)
        return self.out(((q @ k.transpose(-2, -1)).softmax(-1) @ v).transpose(1, 2).reshape(n, 16, c))

    def forward(self, x):
        x = self.patches(x).permute(0, 2, 3, 1)
        n, high, wide, c = x.shape
        x = functional.pad(x, (0, 0, 0, (4 - wide % 4) % 4, 0, (4 - high % 4) % 4))
        _, h, w, _ = x.shape
        x = torch.roll(x, (-2, -2), (1, 2))
        y = x.view(n, h // 4, 4, w // 4, 4, c).permute(0, 1, 3, 2, 4, 5).reshape(-1, 16, c)
        y = self.attend(y).view(n, h // 4, w // 4, 4, 4, c).permute(0, 1, 3, 2, 4, 5).reshape(n, h, w, c)
        y = self.norm(torch.roll(y, (2, 2), (1, 2))[:, :high, :wide, :].contiguous())
        y = torch.cat([y[:, 0::2, 0::2], y[:, 1::2, 0::2], y[:, 0::2, 1::2], y[:, 1::2, 1::2]], -1)
        return self.merge(y).flatten(1, 2).mean(1)


class Detector(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 8, 3, 2, 1), nn.Conv2d(8, 8, 3, 2, 1)
        self.join, self.states = nn.Conv2d(16, 4, 1), nn.LSTM(8, 6, bidirectional=True)

    def forward(self, x):
        a = self.first(x)
        b = self.second(a)
        by_size = functional.interpolate(b, size=a.shape[2:], mode="nearest")
        by_scale = functional.interpolate(b, scale_factor=2, mode="nearest")
        y = self.join(torch.cat([a, by_size], 1)) + self.join(torch.cat([a, by_scale], 1))
        return y.squeeze(0), self.states(a.mean(2).permute(2, 0, 1))[0]


_IMAGE = {"x0": {0: "batch", 2: "h", 3: "w"}}
_WORDS = {name: {0: "batch", 1: "length"} for name in ("x0", "x1")}
# name -> (model, example inputs, free axes, their sizes)
CASES = {
    "shuffle": (Shuffle(), (torch.zeros(1, 8, 16, 16),), _IMAGE, {"h": 16, "w": 16}),
    "encoder": (
        *(Encoder(), (torch.zeros(2, 12, dtype=torch.long), torch.ones(2, 12, dtype=torch.long))),
        *(_WORDS, {"batch": 2, "length": 12}),
    ),
    "windows": (Windows(), (torch.zeros(1, 3, 56, 40),), _IMAGE, {"h": 56, "w": 40}),
    "detector": (Detector(), (torch.zeros(1, 3, 32, 32),), _IMAGE, {"h": 32, "w": 32}),
}
