"""C programs as workloads: from text to a loop nest with C's meaning."""
