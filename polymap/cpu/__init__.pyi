from polymap.cpu.choose import (
    CpuChoice as CpuChoice,
    choose_cpu_mapping as choose_cpu_mapping,
    plain_mapping as plain_mapping,
)
from polymap.cpu.header import choice_lines as choice_lines
from polymap.cpu.machine import facts_of as facts_of
