"""Generated C, compiled, run and compared with its reference."""
