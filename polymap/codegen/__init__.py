"""Loop tree to C: lowering, printing, compiling, running, and the reference that the result is compared with."""

from polymap.lazy import lazy

with lazy(__name__):
    from polymap.codegen.forms import Form as Form
