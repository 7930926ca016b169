"""The program that does what the machine does, every word counted where it moves."""
