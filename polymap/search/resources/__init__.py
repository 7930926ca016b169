"""What a search may use: time, memory, work, processes."""
