"""The program to use, without counters."""
