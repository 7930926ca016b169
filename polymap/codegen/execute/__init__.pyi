from polymap.codegen.execute.run import CRun as CRun, generate_c as generate_c, run_c as run_c
