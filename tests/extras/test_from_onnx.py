"""ONNX models as networks: multiply-accumulates counted by hand, every node told, damaged files refused in words."""

from __future__ import annotations

import json
import random
import time
from pathlib import Path

import onnx
import pytest

import polymap as pm
from polymap.cli.command_line import main
from tests.extras import onnx_zoo

BLOCK = 3 * 64 * 64 + 2 * 4 * 16 * 32 + 64 * 64 + 2 * 64 * 256  # one word, 31 + 1 in the cache
UNET = 32**2 * 9 * 8 + 16**2 * 9 * 8 * 16 + 16**2 * 16 * 8 * 4 + 32**2 * 9 * 16 * 8
MOBILE = 112**2 * (32 * 27 + 32 * 9 + 32 * 16 + 16 * 96) + 56**2 * (96 * 9 + 96 * 24)
# By the table of Sandler et al. 2018, "MobileNetV2", table 2: (pixels before, pixels after, channels, outputs, blocks).
BLOCKS = [(112, 56, 16, 24, 2), (56, 28, 24, 32, 3), (28, 14, 32, 64, 4), (14, 14, 64, 96, 3), (14, 7, 96, 160, 3)]
MOBILENET_V2 = (
    112**2 * 32 * (27 + 9 + 16)
    + sum(6 * c * (p**2 * c + q**2 * (9 + o)) + (n - 1) * q**2 * 6 * o * (2 * o + 9) for p, q, c, o, n in BLOCKS)
    + 7**2 * (960 * (160 + 9 + 320) + 320 * 1280)
    + 1280 * 1000
)
DOWN_AND_UP = 64**2 * 9 * 8 + 32**2 * 9 * 8 * 16 + 16**2 * 9 * 16 * 32
DOWN_AND_UP += 16**2 * 32 * 16 * 4 + 32**2 * 9 * 32 * 16 + 32**2 * 16 * 8 * 16 + 64**2 * (9 * 16 * 8 + 8 * 2)
MODELS = {
    "resnet50": (onnx_zoo.resnet50, {}, 4_089_184_256, []),
    "block": (onnx_zoo.block, {"length": 1}, BLOCK, []),
    "unet": (onnx_zoo.unet, {}, UNET, [("softplus_9", "Softplus", "no affine loop nest is known for this operator")]),
    "mobile": (onnx_zoo.mobile, {}, MOBILE, []),
    "mobilenet_v2": (onnx_zoo.mobilenet_v2, {}, MOBILENET_V2, []),
    "unet_of_three": (onnx_zoo.unet_of_three, {}, DOWN_AND_UP, []),
}


def written(tmp_path: Path, name: str) -> Path:
    path = tmp_path / f"{name}.onnx"
    path.write_bytes(MODELS[name][0]().SerializeToString())
    return path


@pytest.mark.parametrize("name", MODELS)
def test_macs_and_unmapped_nodes_of_each_model(tmp_path: Path, name: str) -> None:
    _, sizes, macs, unmapped = MODELS[name]
    path, start = written(tmp_path, name), time.process_time()
    net = pm.from_onnx(path, batch=1, sizes=sizes)
    assert time.process_time() - start < 10
    assert net.macs == macs
    assert net.unmapped == unmapped
    assert {view.operator for view in net.views} <= {"Reshape", "Transpose", "Concat", "Flatten"}


def test_resnet50_has_the_convolutions_and_values_of_the_builtin_network(tmp_path: Path) -> None:
    net = pm.from_onnx(written(tmp_path, "resnet50"), bits=8).products()
    mine, builtin = (pm.explore_network(each, "flat3", tiles="divide") for each in (net, pm.network("resnet50")))
    assert mine.exact == builtin.exact
    assert mine.status == "OPTIMAL"


def test_batch_is_bound_by_name(tmp_path: Path) -> None:
    path = written(tmp_path, "mobile")
    assert pm.from_onnx(path, batch=3).macs == 3 * MOBILE


def test_dims_without_sizes_are_named(tmp_path: Path) -> None:
    with pytest.raises(pm.InputError, match="PM641 'block.onnx' has dims without sizes: length"):
        pm.from_onnx(written(tmp_path, "block"))


def test_the_command_line_reads_model_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(tmp_path, "block")
    words = ("explore", str(path), "length=1", "--arch", "flat3", "--tiles", "divide", "--json", "-")
    assert main(words) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["macs"] == BLOCK
    assert answer["status"] == "OPTIMAL"
    assert main(("explore", str(tmp_path / "none.onnx"), "--arch", "flat3")) == 2


def test_every_node_is_told_once(tmp_path: Path) -> None:
    model = onnx_zoo.unet()
    net = pm.from_onnx(written(tmp_path, "unet"))
    told = [view.node for view in net.views] + [left.node for left in net.unmapped]
    told += [layer.name for layer in net.layers for _ in range(layer.multiplicity)]
    assert len(told) == len(model.graph.node)
    assert ("concat_6", "conv_7") in net.edges


def damaged(data: bytes, rng: random.Random) -> bytes:
    changed = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 5, 20))):
        place = rng.randrange(len(changed))
        match rng.randrange(4):
            case 0:
                changed[place] = rng.randrange(256)
            case 1:
                changed[place] ^= 1 << rng.randrange(8)
            case 2:
                del changed[place : place + rng.randint(1, 9)]
            case _:
                changed[place:place] = bytes(rng.randrange(256) for _ in range(rng.randint(1, 9)))
        if not changed:
            return b""
    return bytes(changed)


def outcome(path: Path) -> str:
    """Return what becomes of a file; any other exception than polymap's own goes up."""
    try:
        return "network" if pm.from_onnx(path, sizes={"length": 1}).layers else "empty"
    except pm.PolymapError:
        return "refused"


@pytest.mark.parametrize("batch", range(20))
def test_1000_damaged_files_are_read_or_refused(tmp_path: Path, batch: int) -> None:
    models = {name: MODELS[name][0]().SerializeToString() for name in ("block", "unet", "mobile")}
    path = tmp_path / "damaged.onnx"
    for seed in range(50 * batch, 50 * (batch + 1)):
        rng = random.Random(seed)
        path.write_bytes(damaged(models[rng.choice(("block", "unet", "mobile"))], rng))
        assert outcome(path) in ("network", "empty", "refused"), seed


def test_what_is_no_model_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "text.onnx"
    path.write_text("hello", encoding="utf-8")
    with pytest.raises(pm.InputError, match="PM640"):
        pm.from_onnx(path)
    path.write_bytes(onnx.ModelProto().SerializeToString())
    with pytest.raises(pm.InputError, match="PM640"):
        pm.from_onnx(path)
    with pytest.raises(pm.InputError, match="PM101"):
        pm.from_onnx(tmp_path / "none.onnx")


def test_names_that_are_no_text_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "bytes.onnx"
    path.write_bytes(onnx_zoo.unet().SerializeToString().replace(b"softplus_9", b"\xff\xfeftplus_9"))
    with pytest.raises(pm.InputError, match="PM640"):
        pm.from_onnx(path)


@pytest.mark.parametrize("kind", [onnx.AttributeProto.UNDEFINED, onnx.AttributeProto.INT, onnx.AttributeProto.STRING])
def test_an_attribute_of_another_type_leaves_its_node_unmapped(tmp_path: Path, kind: int) -> None:
    model = onnx_zoo.unet()
    conv = next(node for node in model.graph.node if node.op_type == "Conv")
    next(each for each in conv.attribute if each.name == "pads").type = kind
    path = tmp_path / "model.onnx"
    path.write_bytes(model.SerializeToString())
    try:
        told = [left.reason for left in pm.from_onnx(path).unmapped]
    except pm.InputError as error:  # onnx's own inference of shapes refuses it first
        told = [str(error)]
    assert any("attribute 'pads'" in each or "PM640" in each or "shape" in each for each in told), told
