"""The machine: memory levels, fan-outs and the compute unit; presets with a source for each number."""

from polymap.lazy import lazy

with lazy(__name__):
    from polymap.arch.document import (
        arch_from_document as arch_from_document,
        arch_to_document as arch_to_document,
        arch_warnings as arch_warnings,
        no_energies as no_energies,
        node_problems as node_problems,
    )
    from polymap.arch.presets import load_arch as load_arch, preset_names as preset_names
