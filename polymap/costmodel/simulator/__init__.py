"""The referee: every step of a mapping walked, every element moved one by one."""
