from polymap.workload.programs.einsum_programs import program as program
from polymap.workload.programs.nests import nest as nest
