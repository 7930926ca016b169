"""`pm.io`: files, documents and other tools' formats, in and out."""

from polymap.lazy import lazy

with lazy(__name__):
    from polymap.codegen.preprocess import preprocessed as preprocessed
    from polymap.codegen.source.symbolic import (
        SymbolicCheckup as SymbolicCheckup,
        SymbolicDependence as SymbolicDependence,
        SymbolicLoop as SymbolicLoop,
        SymbolicStatement as SymbolicStatement,
        symbolic_checkup as symbolic_checkup,
    )
    from polymap.importers.accelforge import (
        AccelforgeFiles as AccelforgeFiles,
        AccelforgeLayer as AccelforgeLayer,
        from_accelforge as from_accelforge,
    )
    from polymap.importers.linalg import from_linalg as from_linalg
    from polymap.importers.onnx_models import from_onnx as from_onnx
    from polymap.importers.timeloop.accelergy import from_accelergy as from_accelergy
    from polymap.importers.timeloop.export import to_timeloop as to_timeloop
    from polymap.importers.timeloop.reading import from_timeloop as from_timeloop
    from polymap.importers.torch_models import from_torch as from_torch
    from polymap.importers.zigzag import (
        ZigzagFiles as ZigzagFiles,
        ZigzagLayer as ZigzagLayer,
        from_zigzag as from_zigzag,
    )
    from polymap.inputs.machines import arch_from_document as arch_from_document, arch_to_document as arch_to_document
    from polymap.inputs.mappings import (
        mapping_from_document as mapping_from_document,
        mapping_to_document as mapping_to_document,
    )
    from polymap.inputs.presets import load_arch as load_arch, preset_names as preset_names
    from polymap.ir.loopnest import Role as Role
    from polymap.ir.machine import FanoutKind as FanoutKind, Hops as Hops, Multicast as Multicast
    from polymap.networks.answer_files import load_result as load_result
    from polymap.networks.model import NetworkLayer as NetworkLayer
    from polymap.poly import CountFormula as CountFormula
    from polymap.report.progress import ProgressLine as ProgressLine
    from polymap.transform.openscop import from_openscop as from_openscop, to_openscop as to_openscop
    from polymap.workload.document import (
        load_workload as load_workload,
        workload_from_document as workload_from_document,
        workload_to_document as workload_to_document,
    )
    from polymap.workload.mlir_affine import affine_to_c as affine_to_c, workload_from_affine as workload_from_affine
    from polymap.workload.mlir_written import c_to_affine as c_to_affine
    from polymap.workload.networks import builtin_names as builtin_names, builtin_workload as builtin_workload
    from polymap.workload.openscop_loops import (
        openscop_to_c as openscop_to_c,
        workload_from_openscop as workload_from_openscop,
    )
