"""Programs for use, without counters, and functions of them to call."""

from polymap.lazy import lazy

with lazy(__name__):
    from polymap.codegen.native.arrays import (
        ELEMENT_BYTES as ELEMENT_BYTES,
        LAYOUTS as LAYOUTS,
        ArrayForm as ArrayForm,
        Word as Word,
        program_forms as program_forms,
        with_types as with_types,
    )
    from polymap.codegen.native.cache import build_shared as build_shared
    from polymap.codegen.native.callable import (
        NativeCall as NativeCall,
        PackedWeights as PackedWeights,
        load_function as load_function,
        load_region as load_region,
    )
    from polymap.codegen.native.compiler import CLANG_FLAGS as CLANG_FLAGS, STRAIGHT as STRAIGHT
    from polymap.codegen.native.dots import (
        Dots as Dots,
        dot_calls as dot_calls,
        dot_texts as dot_texts,
        join_texts as join_texts,
    )
    from polymap.codegen.native.flat_dims import flatten as flatten
    from polymap.codegen.native.function import (
        BFLOAT16 as BFLOAT16,
        FUSED as FUSED,
        NativeFunction as NativeFunction,
        function_of_lanes as function_of_lanes,
        function_of_parts as function_of_parts,
        native_function as native_function,
        signature as signature,
    )
    from polymap.codegen.native.lanes import memory_steps as memory_steps, vector_dims as vector_dims
    from polymap.codegen.native.panels import lane_types as lane_types, turn_text as turn_text
    from polymap.codegen.native.program import lower_native as lower_native
    from polymap.codegen.native.region import RegionCall as RegionCall
    from polymap.codegen.native.residue_parts import residues as residues
    from polymap.codegen.native.scalar import neutral_value as neutral_value, operand_types as operand_types
    from polymap.codegen.native.tails import NARROW as NARROW, Requantize as Requantize
    from polymap.codegen.native.words import in_words as in_words
