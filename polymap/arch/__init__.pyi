from polymap.arch.document import arch_warnings as arch_warnings
from polymap.arch.presets import load_arch as load_arch, preset_names as preset_names
