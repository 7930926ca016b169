from polymap.cpu.choose import CpuChoice as CpuChoice, choose_cpu_mapping as choose_cpu_mapping
from polymap.cpu.machine import CpuFacts as CpuFacts, cpu_machine as cpu_machine, facts_of as facts_of
