from polymap.arch.document import (
    arch_from_document as arch_from_document,
    arch_to_document as arch_to_document,
    arch_warnings as arch_warnings,
    no_energies as no_energies,
)
from polymap.arch.presets import load_arch as load_arch, preset_names as preset_names
