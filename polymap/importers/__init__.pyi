from polymap.importers.onnx_models import from_onnx as from_onnx
