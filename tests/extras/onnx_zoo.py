"""ONNX models that the tests of from_onnx build; weights are declared without data."""

from __future__ import annotations

from onnx import ModelProto, TensorProto, helper


class Builder:
    """Adds nodes one after the other; every method returns the name of its result."""

    def __init__(self) -> None:
        self.nodes, self.weights, self.inputs = [], [], []

    def input(self, name: str, shape: tuple, kind: int = TensorProto.FLOAT) -> str:
        self.inputs.append(helper.make_tensor_value_info(name, kind, shape))
        return name

    def weight(self, *shape: int) -> str:
        name = f"w{len(self.weights)}"
        tensor = TensorProto(name=name, data_type=TensorProto.FLOAT, dims=shape, data_location=TensorProto.EXTERNAL)
        tensor.external_data.add(key="location", value="weights.bin")
        self.weights.append(tensor)
        return name

    def numbers(self, *values: int) -> str:
        name = f"c{len(self.weights)}"
        self.weights.append(helper.make_tensor(name, TensorProto.INT64, (len(values),), values))
        return name

    def node(self, operator: str, *inputs: str, **attributes: object) -> str:
        name = f"{operator.lower()}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, list(inputs), [name], name=name, **attributes))
        return name

    def conv(self, x: str, channels: int, outputs: int, kernel: int = 1, stride: int = 1, **more: object) -> str:
        group = int(more.get("group", 1))  # type: ignore[call-overload]
        pad = kernel // 2
        weight = self.weight(outputs, channels // group, kernel, kernel)
        return self.node("Conv", x, weight, strides=[stride] * 2, pads=[pad] * 4, **more)

    def model(self, output: str, opset: int = 18) -> ModelProto:
        ends = [helper.make_tensor_value_info(output, TensorProto.FLOAT, None)]
        graph = helper.make_graph(self.nodes, "graph", self.inputs, ends, self.weights)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])


def resnet50() -> ModelProto:
    b = Builder()
    x = b.node("Relu", b.conv(b.input("x", ("batch", 3, 224, 224)), 3, 64, 7, 2))
    x = b.node("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    channels = 64
    for width, count, step in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for place in range(count):
            stride = step if place == 0 else 1
            y = b.node("Relu", b.conv(x, channels, width))
            y = b.node("Relu", b.conv(y, width, width, 3, stride))
            y = b.conv(y, width, 4 * width)
            short = x if place else b.conv(x, channels, 4 * width, 1, stride)
            x, channels = b.node("Relu", b.node("Add", y, short)), 4 * width
    x = b.node("Flatten", b.node("GlobalAveragePool", x))
    return b.model(b.node("Gemm", x, b.weight(1000, 2048), b.weight(1000), transB=1))


def block(length: str = "length") -> ModelProto:
    """A transformer block, width 64, 4 heads, which reads a cache of 31 keys and values."""
    b = Builder()
    ids = b.input("ids", ("batch", length), TensorProto.INT64)
    x = b.node("Gather", b.weight(100, 64), ids)
    normal = b.node("LayerNormalization", x, b.weight(64), b.weight(64), axis=-1)
    heads = []
    for turn in ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3]):
        y = b.node("Reshape", b.node("MatMul", normal, b.weight(64, 64)), b.numbers(0, 0, 4, 16))
        heads.append(b.node("Transpose", y, perm=turn))
    keys = b.node("Concat", b.input("keys", ("batch", 4, 16, 31)), heads[1], axis=3)
    values = b.node("Concat", b.input("values", ("batch", 4, 31, 16)), heads[2], axis=2)
    weights = b.node("Softmax", b.node("MatMul", heads[0], keys), axis=-1)
    y = b.node("Transpose", b.node("MatMul", weights, values), perm=[0, 2, 1, 3])
    y = b.node("MatMul", b.node("Reshape", y, b.numbers(0, 0, 64)), b.weight(64, 64))
    x = b.node("Add", x, y)
    y = b.node("MatMul", b.node("Relu", b.node("MatMul", x, b.weight(64, 256))), b.weight(256, 64))
    return b.model(b.node("Add", x, y))


def unet() -> ModelProto:
    b = Builder()
    x = b.input("x", (1, 1, 32, 32))
    first = b.node("Relu", b.conv(x, 1, 8, 3))
    second = b.node("Relu", b.conv(b.node("MaxPool", first, kernel_shape=[2, 2], strides=[2, 2]), 8, 16, 3))
    up = b.node("ConvTranspose", second, b.weight(16, 8, 2, 2), strides=[2, 2])
    y = b.conv(b.node("Concat", up, first, axis=1), 16, 8, 3)
    rows = b.node("ReduceMean", y, b.numbers(2, 3), keepdims=0)
    return b.model(b.node("Softplus", rows))


def mobile() -> ModelProto:
    """A stem, and two inverted residuals of MobileNetV2."""
    b = Builder()
    x = b.node("Clip", b.conv(b.input("x", ("N", 3, 224, 224)), 3, 32, 3, 2))
    x = b.conv(b.node("Clip", b.conv(x, 32, 32, 3, group=32)), 32, 16)
    y = b.node("Clip", b.conv(x, 16, 96))
    return b.model(b.conv(b.node("Clip", b.conv(y, 96, 96, 3, 2, group=96)), 96, 24))


def mobilenet_v2() -> ModelProto:
    """MobileNetV2 whole, batch normalisations folded as exporters do."""
    b = Builder()
    x, channels = b.node("Clip", b.conv(b.input("x", ("N", 3, 224, 224)), 3, 32, 3, 2)), 32
    rows = [(1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)]
    for factor, outputs, count, step in rows:
        for place in range(count):
            width = channels * factor
            y = b.node("Clip", b.conv(x, channels, width)) if factor > 1 else x
            y = b.node("Clip", b.conv(y, width, width, 3, 1 if place else step, group=width))
            y = b.conv(y, width, outputs)
            x, channels = b.node("Add", x, y) if place else y, outputs
    x = b.node("ReduceMean", b.node("Clip", b.conv(x, 320, 1280)), b.numbers(2, 3), keepdims=0)
    return b.model(b.node("Gemm", x, b.weight(1000, 1280), b.weight(1000), transB=1))


def unet_of_three() -> ModelProto:
    """A U-Net of three resolutions: skips, transposed convolutions of two kinds, an end of kernel 1."""
    b = Builder()
    skips, x, channels = [], b.input("x", (1, 1, 64, 64)), 1
    for width in (8, 16):
        x = b.node("Relu", b.conv(x, channels, width, 3))
        skips.append(x)
        x, channels = b.node("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2]), width
    x = b.node("Relu", b.conv(x, 16, 32, 3))
    for width, kernel, pad in ((16, 2, 0), (8, 4, 1)):
        weight = b.weight(2 * width, width, kernel, kernel)
        up = b.node("ConvTranspose", x, weight, strides=[2, 2], pads=[pad] * 4)
        x = b.node("Relu", b.conv(b.node("Concat", up, skips.pop(), axis=1), 2 * width, width, 3))
    return b.model(b.conv(x, 8, 2))
