"""Compiled functions of native code: the compiler, the cache of its objects, and the arrays that callers pass."""

from polymap.lazy import lazy

with lazy(__name__):
    from polymap.codegen.library.cache import build_shared as build_shared
    from polymap.codegen.library.function import (
        NativeCall as NativeCall,
        PackedWeights as PackedWeights,
        load_function as load_function,
        load_region as load_region,
    )
    from polymap.codegen.library.region import RegionCall as RegionCall
