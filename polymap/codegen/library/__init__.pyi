from polymap.codegen.library.compiler import compile_shared as compile_shared, host_compiler as host_compiler
from polymap.codegen.library.function import (
    NativeCall as NativeCall,
    PackedWeights as PackedWeights,
    load_function as load_function,
)
