"""Ordinary kernels of C, each with the sizes that it is measured at: filters, stencils, small matrices, pixels,
sums."""

from __future__ import annotations

_LONG = ({"n": 4096}, {"n": 200000})
_SQUARE = ({"n": 64}, {"n": 600})
_ROWS = ({"n": 500}, {"n": 50000})
_SMALL = ({"n": 48}, {"n": 300})

KERNELS: dict[str, tuple[str, tuple[dict[str, int], ...]]] = {
    # Filters and signals.
    "fir5": ("""void f(int n, const float x[n], const float h[5], float y[n]) {
        for (int i = 0; i < n - 4; i++) { float s = 0; for (int k = 0; k < 5; k++) s += x[i + k] * h[k]; y[i] = s;
        } }""", _LONG),
    "fir16": ("""void f(int n, const float x[n + 16], const float h[16], float y[n]) {
        for (int i = 0; i < n; i++) { y[i] = 0; for (int k = 0; k < 16; k++) y[i] += x[i + k] * h[k]; } }""", _LONG),
    "fir64": ("""void f(int n, const float x[n + 64], const float h[64], float y[n]) {
        for (int i = 0; i < n; i++) { float s = 0; for (int k = 0; k < 64; k++) s += x[i + k] * h[k]; y[i] = s; }
        }""",
        ({"n": 4096}, {"n": 50000})),
    "decimate": ("""void f(int n, const float x[2 * n + 8], const float h[8], float y[n]) {
        for (int i = 0; i < n; i++) { float s = 0; for (int k = 0; k < 8; k++) s += x[2 * i + k] * h[k]; y[i] = s;
        } }""", _LONG),
    "interpolate": ("""void f(int n, const float x[n + 1], float y[2 * n]) {
        for (int i = 0; i < n; i++) { y[2 * i] = x[i]; y[2 * i + 1] = 0.5f * (x[i] + x[i + 1]); } }""", _LONG),
    "biquad": ("""void f(int n, const float x[n], float y[n]) {
        for (int i = 2; i < n; i++) y[i] = 0.2f * x[i] + 0.3f * x[i - 1] + 0.2f * x[i - 2] + 0.4f * y[i - 1] - 0.1f
        * y[i - 2]; }""", _LONG),
    "biquads": ("""void f(int n, const float x[n][16], float y[n][16]) {
        for (int c = 0; c < 16; c++) for (int i = 1; i < n; i++) y[i][c] = 0.5f * x[i][c] + 0.5f * y[i - 1][c];
        }""", _ROWS),
    "smooth": ("""void f(int n, const float x[n], float y[n]) {
        for (int i = 1; i < n - 1; i++) y[i] = (x[i - 1] + x[i] + x[i + 1]) / 3.0f; }""", _LONG),
    "autocorrelation": ("""void f(int n, const float x[n + 8], float r[8]) {
        for (int l = 0; l < 8; l++) { r[l] = 0; for (int i = 0; i < n; i++) r[l] += x[i] * x[i + l]; } }""", _LONG),
    "haar": ("""void f(int n, const float x[2 * n], float low[n], float high[n]) {
        for (int i = 0; i < n; i++) { low[i] = x[2 * i] + x[2 * i + 1]; high[i] = x[2 * i] - x[2 * i + 1]; } }""",
        _LONG),
    "dct8": ("""void f(int n, const float x[n][8], const float c[8][8], float y[n][8]) {
        for (int b = 0; b < n; b++) for (int k = 0; k < 8; k++) { float s = 0; for (int i = 0; i < 8; i++) s +=
        c[k][i] * x[b][i]; y[b][k] = s; } }""", _ROWS),
    "complex_product": ("""void f(int n, const float a[n][2], const float b[n][2], float c[n][2]) {
        for (int i = 0; i < n; i++) { c[i][0] = a[i][0] * b[i][0] - a[i][1] * b[i][1]; c[i][1] = a[i][0] * b[i][1]
        + a[i][1] * b[i][0]; } }""", _LONG),
    "power": ("""void f(int n, const float a[n][2], float p[n]) {
        for (int i = 0; i < n; i++) p[i] = a[i][0] * a[i][0] + a[i][1] * a[i][1]; }""", _LONG),
    "mix_to_mono": ("""void f(int n, const short s[n][2], short m[n]) { for (int i = 0; i < n; i++) m[i] = (s[i][0]
        + s[i][1]) / 2; }""", _LONG),
    # Stencils.
    "blur3": ("""void f(int n, const float a[n][n], float b[n][n]) {
        for (int i = 1; i < n - 1; i++) for (int j = 1; j < n - 1; j++) { float s = 0;
            for (int r = 0; r < 3; r++) for (int c = 0; c < 3; c++) s += a[i - 1 + r][j - 1 + c]; b[i][j] = s /
        9.0f; } }""", _SQUARE),
    "blur5": ("""void f(int n, const float a[n][n], const float w[5][5], float b[n][n]) {
        for (int i = 2; i < n - 2; i++) for (int j = 2; j < n - 2; j++) { b[i][j] = 0;
            for (int r = 0; r < 5; r++) for (int c = 0; c < 5; c++) b[i][j] += w[r][c] * a[i - 2 + r][j - 2 + c]; }
        }""", _SQUARE),
    "separable": ("""void f(int n, const float a[n][n], const float w[5], float t[n][n], float b[n][n]) {
        for (int i = 0; i < n; i++) for (int j = 2; j < n - 2; j++) { float s = 0; for (int k = 0; k < 5; k++) s +=
        w[k] * a[i][j + k - 2]; t[i][j] = s; }
        for (int i = 2; i < n - 2; i++) for (int j = 0; j < n; j++) { float s = 0; for (int k = 0; k < 5; k++) s +=
        w[k] * t[i + k - 2][j]; b[i][j] = s; } }""", _SQUARE),
    "sobel": ("""void f(int n, const float a[n][n], float g[n][n]) {
        for (int i = 1; i < n - 1; i++) for (int j = 1; j < n - 1; j++) {
            float x = a[i - 1][j + 1] + 2 * a[i][j + 1] + a[i + 1][j + 1] - a[i - 1][j - 1] - 2 * a[i][j - 1] - a[i
        + 1][j - 1];
            float y = a[i + 1][j - 1] + 2 * a[i + 1][j] + a[i + 1][j + 1] - a[i - 1][j - 1] - 2 * a[i - 1][j] - a[i
        - 1][j + 1];
            g[i][j] = x * x + y * y; } }""", _SQUARE),
    "laplace": ("""void f(int n, const double a[n][n], double b[n][n]) {
        for (int i = 1; i < n - 1; i++) for (int j = 1; j < n - 1; j++) b[i][j] = a[i - 1][j] + a[i + 1][j] +
        a[i][j - 1] + a[i][j + 1] - 4 * a[i][j]; }""", _SQUARE),
    "jacobi": ("""void f(int n, double a[n][n], double b[n][n]) { for (int t = 0; t < 4; t++) {
        for (int i = 1; i < n - 1; i++) for (int j = 1; j < n - 1; j++) b[i][j] = 0.25 * (a[i - 1][j] + a[i + 1][j]
        + a[i][j - 1] + a[i][j + 1]);
        for (int i = 1; i < n - 1; i++) for (int j = 1; j < n - 1; j++) a[i][j] = b[i][j]; } }""", _SQUARE),
    "seidel": ("""void f(int n, double a[n][n]) {
        for (int i = 1; i < n - 1; i++) for (int j = 1; j < n - 1; j++) a[i][j] = 0.25 * (a[i - 1][j] + a[i + 1][j]
        + a[i][j - 1] + a[i][j + 1]); }""", _SQUARE),
    "heat3d": ("""void f(int n, const float a[n][n][n], float b[n][n][n]) {
        for (int i = 1; i < n - 1; i++) for (int j = 1; j < n - 1; j++) for (int k = 1; k < n - 1; k++)
            b[i][j][k] = 0.4f * a[i][j][k] + 0.1f * (a[i - 1][j][k] + a[i + 1][j][k] + a[i][j - 1][k] + a[i][j +
        1][k] + a[i][j][k - 1] + a[i][j][k + 1]); }""",
        ({"n": 20}, {"n": 90})),
    "erode": ("""void f(int n, const unsigned char a[n][n], unsigned char b[n][n]) {
        for (int i = 1; i < n - 1; i++) for (int j = 1; j < n - 1; j++) { b[i][j] = a[i][j];
            for (int r = -1; r <= 1; r++) for (int c = -1; c <= 1; c++) b[i][j] = a[i + r][j + c] < b[i][j] ? a[i +
        r][j + c] : b[i][j]; } }""", _SQUARE),
    "max_pool": ("""void f(int n, const float a[2 * n][2 * n], float b[n][n]) {
        for (int i = 0; i < n; i++) for (int j = 0; j < n; j++) { float m = a[2 * i][2 * j];
            for (int r = 0; r < 2; r++) for (int c = 0; c < 2; c++) m = a[2 * i + r][2 * j + c] > m ? a[2 * i +
        r][2 * j + c] : m; b[i][j] = m; } }""", _SMALL),
    "average_pool": ("""void f(int n, const float a[2 * n][2 * n], float b[n][n]) {
        for (int i = 0; i < n; i++) for (int j = 0; j < n; j++) { float s = 0;
            for (int r = 0; r < 2; r++) for (int c = 0; c < 2; c++) s += a[2 * i + r][2 * j + c]; b[i][j] = 0.25f *
        s; } }""", _SMALL),
    "upsample": ("""void f(int n, const float a[n][n], float b[2 * n][2 * n]) {
        for (int i = 0; i < n; i++) for (int j = 0; j < n; j++) for (int r = 0; r < 2; r++) for (int c = 0; c < 2;
        c++) b[2 * i + r][2 * j + c] = a[i][j]; }""", _SMALL),
    # Layers.
    "depthwise": ("""void f(int n, const float x[n][34][34], const float w[n][3][3], float y[n][32][32]) {
        for (int c = 0; c < n; c++) for (int i = 0; i < 32; i++) for (int j = 0; j < 32; j++) { y[c][i][j] = 0;
            for (int r = 0; r < 3; r++) for (int s = 0; s < 3; s++) y[c][i][j] += x[c][i + r][j + s] * w[c][r][s];
        } }""", ({"n": 8}, {"n": 128})),
    "depthwise_nhwc": ("""void f(int n, const float x[34][34][n], const float w[3][3][n], float y[32][32][n]) {
        for (int i = 0; i < 32; i++) for (int j = 0; j < 32; j++) for (int c = 0; c < n; c++) { float t = 0;
            for (int r = 0; r < 3; r++) for (int s = 0; s < 3; s++) t += x[i + r][j + s][c] * w[r][s][c];
        y[i][j][c] = t; } }""", ({"n": 32}, {"n": 128})),
    "conv3x3": ("""void f(int n, const float x[n][18][18], const float w[n][n][3][3], float y[n][16][16]) {
        for (int k = 0; k < n; k++) for (int i = 0; i < 16; i++) for (int j = 0; j < 16; j++) { y[k][i][j] = 0;
            for (int c = 0; c < n; c++) for (int r = 0; r < 3; r++) for (int s = 0; s < 3; s++) y[k][i][j] +=
        x[c][i + r][j + s] * w[k][c][r][s]; } }""",
        ({"n": 8}, {"n": 32})),
    "bias_relu": ("""void f(int n, const float b[64], float x[n][64]) {
        for (int i = 0; i < n; i++) for (int c = 0; c < 64; c++) x[i][c] = x[i][c] + b[c] > 0 ? x[i][c] + b[c] : 0;
        }""", ({"n": 64}, {"n": 4000})),
    "batch_norm": ("""void f(int n, const float x[n][64], const float a[64], const float b[64], float y[n][64]) {
        for (int i = 0; i < n; i++) for (int c = 0; c < 64; c++) y[i][c] = a[c] * x[i][c] + b[c]; }""", ({"n": 64},
        {"n": 4000})),
    "row_moments": ("""void f(int n, const float x[n][64], float m[n], float v[n]) { for (int i = 0; i < n; i++) {
        float s = 0, q = 0; for (int j = 0; j < 64; j++) { s += x[i][j]; q += x[i][j] * x[i][j]; } m[i] = s / 64;
        v[i] = q / 64 - s / 64 * (s / 64); } }""",
        ({"n": 64}, {"n": 4000})),
    # Small matrices and points.
    "matvec4": ("""void f(int n, const float m[4][4], const float x[n][4], float y[n][4]) {
        for (int i = 0; i < n; i++) for (int r = 0; r < 4; r++) { float s = 0; for (int c = 0; c < 4; c++) s +=
        m[r][c] * x[i][c]; y[i][r] = s; } }""", _ROWS),
    "matvec3": ("""void f(int n, const float m[3][3], const float x[n][3], float y[n][3]) {
        for (int i = 0; i < n; i++) for (int r = 0; r < 3; r++) { y[i][r] = 0; for (int c = 0; c < 3; c++) y[i][r]
        += m[r][c] * x[i][c]; } }""", _ROWS),
    "matmul4s": ("""void f(int n, const float a[n][4][4], const float b[n][4][4], float c[n][4][4]) {
        for (int p = 0; p < n; p++) for (int i = 0; i < 4; i++) for (int j = 0; j < 4; j++) { c[p][i][j] = 0; for
        (int k = 0; k < 4; k++) c[p][i][j] += a[p][i][k] * b[p][k][j]; } }""",
        ({"n": 200}, {"n": 5000})),
    "matmul3s": ("""void f(int n, const double a[n][3][3], const double b[n][3][3], double c[n][3][3]) {
        for (int p = 0; p < n; p++) for (int i = 0; i < 3; i++) for (int j = 0; j < 3; j++) { double s = 0; for
        (int k = 0; k < 3; k++) s += a[p][i][k] * b[p][k][j]; c[p][i][j] = s; } }""",
        ({"n": 200}, {"n": 5000})),
    "covariance3": ("""void f(int n, const float x[n][3], float c[3][3]) {
        for (int i = 0; i < 3; i++) for (int j = 0; j < 3; j++) { c[i][j] = 0; for (int p = 0; p < n; p++) c[i][j]
        += x[p][i] * x[p][j]; } }""", _ROWS),
    "distances": ("""void f(int n, const float a[n][3], const float b[n][3], float d[n]) {
        for (int i = 0; i < n; i++) { float s = 0; for (int c = 0; c < 3; c++) s += (a[i][c] - b[i][c]) * (a[i][c]
        - b[i][c]); d[i] = s; } }""", _ROWS),
    "pairwise": ("""void f(int n, const float a[n][3], float d[n][n]) {
        for (int i = 0; i < n; i++) for (int j = 0; j < n; j++) { d[i][j] = 0; for (int c = 0; c < 3; c++) d[i][j]
        += (a[i][c] - a[j][c]) * (a[i][c] - a[j][c]); } }""",
        ({"n": 64}, {"n": 600})),
    "translate": ("""void f(int n, const float t[3], float x[n][3]) { for (int i = 0; i < n; i++) for (int c = 0; c
        < 3; c++) x[i][c] += t[c]; }""", _ROWS),
    # Matrices.
    "gemm": ("""void f(int n, const float a[n][n], const float b[n][n], float c[n][n]) {
        for (int i = 0; i < n; i++) for (int j = 0; j < n; j++) { c[i][j] = 0; for (int k = 0; k < n; k++) c[i][j]
        += a[i][k] * b[k][j]; } }""", ({"n": 32}, {"n": 256})),
    "gemm_scalar": ("""void f(int n, const double a[n][n], const double b[n][n], double c[n][n]) {
        for (int i = 0; i < n; i++) for (int j = 0; j < n; j++) { double s = 0; for (int k = 0; k < n; k++) s +=
        a[i][k] * b[k][j]; c[i][j] = s; } }""", ({"n": 16}, {"n": 200})),
    "gemm_ikj": ("""void f(int n, const float a[n][n], const float b[n][n], float c[n][n]) {
        for (int i = 0; i < n; i++) for (int k = 0; k < n; k++) for (int j = 0; j < n; j++) c[i][j] += a[i][k] *
        b[k][j]; }""", ({"n": 20}, {"n": 256})),
    "syrk": ("""void f(int n, const double a[n][n], double c[n][n]) {
        for (int i = 0; i < n; i++) for (int j = 0; j <= i; j++) { double s = 0; for (int k = 0; k < n; k++) s +=
        a[i][k] * a[j][k]; c[i][j] = s; } }""", ({"n": 32}, {"n": 200})),
    "gemv": ("""void f(int n, const double a[n][n], const double x[n], double y[n]) {
        for (int i = 0; i < n; i++) { double s = 0; for (int j = 0; j < n; j++) s += a[i][j] * x[j]; y[i] = s; }
        }""", _SQUARE),
    "gemv_transposed": ("""void f(int n, const double a[n][n], const double x[n], double y[n]) {
        for (int j = 0; j < n; j++) { double s = 0; for (int i = 0; i < n; i++) s += a[i][j] * x[i]; y[j] = s; }
        }""", _SQUARE),
    "rank1": ("""void f(int n, const double x[n], const double y[n], double a[n][n]) { for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++) a[i][j] += x[i] * y[j]; }""", _SQUARE),
    "transpose": ("""void f(int n, const float a[n][n], float b[n][n]) { for (int i = 0; i < n; i++) for (int j =
        0; j < n; j++) b[j][i] = a[i][j]; }""", _SQUARE),
    "symmetrize": ("""void f(int n, const double a[n][n], double b[n][n]) { for (int i = 0; i < n; i++) for (int j
        = 0; j < n; j++) b[i][j] = 0.5 * (a[i][j] + a[j][i]); }""", _SQUARE),
    "solve_lower": ("""void f(int n, const double l[n][n], const double b[n], double x[n]) {
        for (int i = 0; i < n; i++) { x[i] = b[i]; for (int j = 0; j < i; j++) x[i] -= l[i][j] * x[j]; x[i] /=
        l[i][i] * l[i][i] + 9; } }""", _SQUARE),
    "solve_many": ("""void f(int n, const double l[n][n], double x[n][32]) {
        for (int i = 0; i < n; i++) for (int c = 0; c < 32; c++) { for (int j = 0; j < i; j++) x[i][c] -= 0.001 *
        l[i][j] * x[j][c]; x[i][c] *= 0.5; } }""", ({"n": 32}, {"n": 200})),
    "tridiagonal": ("""void f(int n, const double a[n], const double c[n], double d[n]) {
        for (int i = 1; i < n; i++) d[i] = 0.5 * c[i] - 0.25 * a[i] * d[i - 1]; for (int i = n - 2; i >= 0; i--)
        d[i] = d[i] - 0.25 * d[i + 1]; }""", _LONG),
    # Pixels.
    "gray": ("""void f(int n, const float p[n][3], float g[n]) { const float w[3] = {0.3f, 0.59f, 0.11f};
        for (int i = 0; i < n; i++) { g[i] = 0; for (int c = 0; c < 3; c++) g[i] += p[i][c] * w[c]; } }""", _LONG),
    "yuv": ("""void f(int n, const float p[n][3], float q[n][3]) {
        const float m[3][3] = {{0.299f, 0.587f, 0.114f}, {-0.147f, -0.289f, 0.436f}, {0.615f, -0.515f, -0.1f}};
        for (int i = 0; i < n; i++) for (int r = 0; r < 3; r++) { float s = 0; for (int c = 0; c < 3; c++) s +=
        m[r][c] * p[i][c]; q[i][r] = s; } }""", _LONG),
    "gray_bytes": ("""void f(int n, const unsigned char p[n][3], unsigned char g[n]) {
        for (int i = 0; i < n; i++) g[i] = (77 * p[i][0] + 150 * p[i][1] + 29 * p[i][2]) / 256; }""", _LONG),
    "blend": ("""void f(int n, const unsigned char a[n], const unsigned char b[n], unsigned char c[n]) { for (int i
        = 0; i < n; i++) c[i] = (3 * a[i] + 5 * b[i]) / 8; }""", _LONG),
    "brighten": ("""void f(int n, const unsigned char a[n], unsigned char b[n]) { for (int i = 0; i < n; i++) b[i]
        = a[i] + 40 > 255 ? 255 : a[i] + 40; }""", _LONG),
    "to_planes": ("""void f(int n, const unsigned char p[n][3], unsigned char q[3][n]) { for (int i = 0; i < n;
        i++) for (int c = 0; c < 3; c++) q[c][i] = p[i][c]; }""", _LONG),
    "from_planes": ("""void f(int n, const float p[3][n], float q[n][3]) { for (int i = 0; i < n; i++) for (int c =
        0; c < 3; c++) q[i][c] = p[c][i]; }""", _LONG),
    # Sums and scans.
    "sum": ("""void f(int n, const float x[n], float s[1]) { s[0] = 0; for (int i = 0; i < n; i++) s[0] += x[i];
        }""", _LONG),
    "dot": ("""void f(int n, const double x[n], const double y[n], double s[1]) { double t = 0; for (int i = 0; i <
        n; i++) t += x[i] * y[i]; s[0] = t; }""", _LONG),
    "dot_integers": ("""void f(int n, const short x[n], const short y[n], int s[1]) { s[0] = 0; for (int i = 0; i <
        n; i++) s[0] += x[i] * y[i]; }""", _LONG),
    "largest": ("""void f(int n, const float x[n], float m[1]) { m[0] = x[0]; for (int i = 1; i < n; i++) m[0] =
        x[i] > m[0] ? x[i] : m[0]; }""", _LONG),
    "row_sums": ("""void f(int n, const float a[n][n], float s[n]) { for (int i = 0; i < n; i++) { s[i] = 0; for
        (int j = 0; j < n; j++) s[i] += a[i][j]; } }""", _SQUARE),
    "column_sums": ("""void f(int n, const float a[n][n], float s[n]) { for (int j = 0; j < n; j++) { s[j] = 0; for
        (int i = 0; i < n; i++) s[j] += a[i][j]; } }""", _SQUARE),
    "prefix": ("""void f(int n, const float x[n], float y[n]) { y[0] = x[0]; for (int i = 1; i < n; i++) y[i] = y[i
        - 1] + x[i]; }""", _LONG),
    "row_prefix": ("""void f(int n, const float x[n][n], float y[n][n]) { for (int i = 0; i < n; i++) for (int j =
        1; j < n; j++) y[i][j] = y[i][j - 1] + x[i][j]; }""", _SQUARE),
    "integral_image": ("""void f(int n, const int a[n][n], int s[n][n]) {
        for (int i = 1; i < n; i++) for (int j = 1; j < n; j++) s[i][j] = a[i][j] + s[i - 1][j] + s[i][j - 1] - s[i
        - 1][j - 1]; }""", _SQUARE),
    "axpy": ("""void f(int n, float a, const float x[n], float y[n]) { for (int i = 0; i < n; i++) y[i] += a *
        x[i]; }""", _LONG),
}  # fmt: skip
