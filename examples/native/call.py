"""Calls the shared object of main.c's convolution by ctypes: python call.py ./conv.so."""

import ctypes
import sys

import numpy as np

conv = ctypes.CDLL(sys.argv[1]).conv
conv.argtypes = [np.ctypeslib.ndpointer(np.float32, flags="C_CONTIGUOUS")] * 3
conv.restype = None

x = np.ones((1, 14, 14, 16), np.float32)  # [N,H,W,C]
w = np.ones((32, 3, 3, 16), np.float32)  # [K,R,S,C]
y = np.empty((1, 14, 14, 32), np.float32)  # [N,P,Q,K]
conv(x, w, y)
print(  # noqa: T201 - an example
    f"corner {y[0, 0, 0, 0]:g}, edge {y[0, 0, 1, 0]:g}, inside {y[0, 1, 1, 0]:g}"
)
