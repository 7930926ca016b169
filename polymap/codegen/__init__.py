"""From a question to a C program: the mapping of a processor's code, chosen by the model; compiled, run, compared."""

from polymap.lazy import lazy

with lazy(__name__):
    from polymap.codegen.compile import COMPILERS as COMPILERS, compile_with as compile_with
    from polymap.codegen.forms import Form as Form
    from polymap.codegen.host_function import native_code as native_code
    from polymap.codegen.preprocess import preprocessed as preprocessed
    from polymap.codegen.run import CRun as CRun, generate_c as generate_c, run_c as run_c
