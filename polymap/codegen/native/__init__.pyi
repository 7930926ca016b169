from polymap.codegen.native.program import lower_native as lower_native
