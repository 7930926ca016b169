"""The optimum with a proof: OR-Tools enumerates legal structure, the cost model scores it."""
