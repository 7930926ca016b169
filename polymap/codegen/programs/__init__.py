"""Functions of whole programs: several statements, temporary arrays, regions of C, in any legal order."""

from polymap.lazy import lazy

with lazy(__name__):
    from polymap.codegen.programs.flags import program_flags as program_flags
    from polymap.codegen.programs.function import program_function as program_function
    from polymap.codegen.programs.row_text import row_function as row_function
