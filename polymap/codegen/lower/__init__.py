"""What a loop tree is in C: loops, places, buffers, elements."""
