"""Loop tree to C: lowering, printing, compiling, running, and the reference that the result is compared with."""
