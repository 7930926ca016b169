from polymap.codegen.native.arrays import LAYOUTS as LAYOUTS, ArrayForm as ArrayForm
from polymap.codegen.native.function import NativeFunction as NativeFunction, native_function as native_function
from polymap.codegen.native.lanes import memory_steps as memory_steps, vector_dims as vector_dims
from polymap.codegen.native.program import lower_native as lower_native
