from polymap.codegen.programs.function import program_function as program_function
