from polymap.codegen.programs.function import program_function as program_function
from polymap.codegen.programs.order import contiguous_order as contiguous_order
