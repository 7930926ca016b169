"""The proof over tiles that divide: structures best first, exact node costs on the divisor lattice."""
