"""Models of other tools as networks; their packages are extras, imported when used."""

from polymap.lazy import lazy

with lazy(__name__):
    from polymap.importers.onnx_models import from_onnx as from_onnx
