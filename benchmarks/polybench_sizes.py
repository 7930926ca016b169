"""The LARGE and MEDIUM sizes of PolyBench/C 4.2.1, from the `*_DATASET` blocks of its headers (polybench.spec).

Louis-Noel Pouchet and Tomofumi Yuki, PolyBench/C 4.2.1 (beta), 2016. SMALL ones stand beside the kernels. Compared
with copies of its headers, number by number: 2mm, 3mm, adi, atax, correlation, deriche, doitgen, fdtd-2d,
floyd-warshall, gemm, gemver, gesummv, gramschmidt, heat-3d, jacobi-1d, jacobi-2d, lu, nussinov, seidel-2d, symm and
syrk; of the other nine no header was at hand. All kernels are over doubles here, also where PolyBench has float
(deriche) or int (nussinov, floyd-warshall).
"""

from __future__ import annotations

from benchmarks.polybench_kernels import KERNELS

_SQUARE = {
    **dict.fromkeys(("gemver", "mvt", "cholesky", "durbin", "lu", "ludcmp", "trisolv"), (400, 2000)),
    "gesummv": (250, 1300),
    "floyd-warshall": (500, 2800),
    "nussinov": (500, 2500),
}
_MEDIUM = {
    "correlation": {"m": 240, "n": 260},
    "covariance": {"m": 240, "n": 260},
    "gemm": {"ni": 200, "nj": 220, "nk": 240},
    "symm": {"m": 200, "n": 240},
    "syr2k": {"m": 200, "n": 240},
    "syrk": {"m": 200, "n": 240},
    "trmm": {"m": 200, "n": 240},
    "2mm": {"ni": 180, "nj": 190, "nk": 210, "nl": 220},
    "3mm": {"ni": 180, "nj": 190, "nk": 200, "nl": 210, "nm": 220},
    "atax": {"m": 390, "n": 410},
    "bicg": {"m": 390, "n": 410},
    "doitgen": {"nq": 40, "nr": 50, "np": 60},
    "gramschmidt": {"m": 200, "n": 240},
    "deriche": {"w": 720, "h": 480},
    "adi": {"tsteps": 100, "n": 200},
    "fdtd-2d": {"tmax": 100, "nx": 200, "ny": 240},
    "heat-3d": {"tsteps": 100, "n": 40},
    "jacobi-1d": {"tsteps": 100, "n": 400},
    "jacobi-2d": {"tsteps": 100, "n": 250},
    "seidel-2d": {"tsteps": 100, "n": 400},
    **{name: {"n": medium} for name, (medium, _) in _SQUARE.items()},
}
_LARGE = {
    "correlation": {"m": 1200, "n": 1400},
    "covariance": {"m": 1200, "n": 1400},
    "gemm": {"ni": 1000, "nj": 1100, "nk": 1200},
    "symm": {"m": 1000, "n": 1200},
    "syr2k": {"m": 1000, "n": 1200},
    "syrk": {"m": 1000, "n": 1200},
    "trmm": {"m": 1000, "n": 1200},
    "2mm": {"ni": 800, "nj": 900, "nk": 1100, "nl": 1200},
    "3mm": {"ni": 800, "nj": 900, "nk": 1000, "nl": 1100, "nm": 1200},
    "atax": {"m": 1900, "n": 2100},
    "bicg": {"m": 1900, "n": 2100},
    "doitgen": {"nq": 140, "nr": 150, "np": 160},
    "gramschmidt": {"m": 1000, "n": 1200},
    "deriche": {"w": 4096, "h": 2160},
    "adi": {"tsteps": 500, "n": 1000},
    "fdtd-2d": {"tmax": 500, "nx": 1000, "ny": 1200},
    "heat-3d": {"tsteps": 500, "n": 120},
    "jacobi-1d": {"tsteps": 500, "n": 2000},
    "jacobi-2d": {"tsteps": 500, "n": 1300},
    "seidel-2d": {"tsteps": 500, "n": 2000},
    **{name: {"n": large} for name, (_, large) in _SQUARE.items()},
}
SIZES = {"SMALL": {name: sizes for name, (_, sizes) in KERNELS.items()}, "MEDIUM": _MEDIUM, "LARGE": _LARGE}
