from polymap.codegen.programs.chooser import Chosen as Chosen, choose as choose
from polymap.codegen.programs.contraction import Registers as Registers
from polymap.codegen.programs.function import program_function as program_function
