"""Files of Timeloop and Accelergy, both ways: versions 0.2 to 0.4, and what their front ends write."""
