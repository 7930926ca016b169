"""What a mapping is worth: exact values, bounds in floats, what no mapping beats, and the best so far."""
