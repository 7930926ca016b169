from polymap.search.one_buffer.sizes import OfSize as OfSize, solve_sizes as solve_sizes
