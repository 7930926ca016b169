"""Processors as machines: what a question about one looks like, and the mapping that its code is printed from."""

from polymap.lazy import lazy

with lazy(__name__):
    from polymap.cpu.choose import (
        CpuChoice as CpuChoice,
        choose_cpu_mapping as choose_cpu_mapping,
        plain_mapping as plain_mapping,
    )
    from polymap.cpu.header import choice_lines as choice_lines
    from polymap.cpu.machine import CpuFacts as CpuFacts, facts_of as facts_of
