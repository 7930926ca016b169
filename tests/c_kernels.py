"""C programs written from the mathematical definitions of well-known kernels, with sizes to read them at."""

from __future__ import annotations

KERNELS: dict[str, tuple[str, dict[str, int]]] = {
    "gemm": ("""
void gemm(int ni, int nj, int nk, float alpha, float beta, float C[ni][nj], float A[ni][nk], float B[nk][nj]) {
  for (int i = 0; i < ni; i++) {
    for (int j = 0; j < nj; j++)
      C[i][j] *= beta;
    for (int k = 0; k < nk; k++)
      for (int j = 0; j < nj; j++)
        C[i][j] += alpha * A[i][k] * B[k][j];
  }
}""", {"ni": 4, "nj": 5, "nk": 3}),
    "2mm": ("""
#define N 4
double A[N][N], B[N][N], C[N][N], D[N][N], alpha, beta;
void k2mm(void) {
  double tmp[N][N];
  int i, j, k;
  for (i = 0; i < N; i++)
    for (j = 0; j < N; j++) {
      tmp[i][j] = 0.0;
      for (k = 0; k < N; ++k)
        tmp[i][j] += alpha * A[i][k] * B[k][j];
    }
  for (i = 0; i < N; i++)
    for (j = 0; j < N; j++) {
      D[i][j] *= beta;
      for (k = 0; k < N; ++k)
        D[i][j] += tmp[i][k] * C[k][j];
    }
}""", {}),
    "atax": ("""
void atax(int m, int n, double A[m][n], double x[n], double y[n]) {
  double tmp[m];
  for (int i = 0; i < n; i++) y[i] = 0;
  for (int i = 0; i < m; i++) {
    tmp[i] = 0.0;
    for (int j = 0; j < n; j++) tmp[i] = tmp[i] + A[i][j] * x[j];
    for (int j = 0; j < n; j++) y[j] = y[j] + A[i][j] * tmp[i];
  }
}""", {"m": 4, "n": 5}),
    "bicg": ("""
void bicg(int m, int n, double A[n][m], double s[m], double q[n], const double p[m], const double r[n]) {
  int i, j;
  for (i = 0; i < m; i++) s[i] = 0;
  for (i = 0; i < n; i++) {
    q[i] = 0.0;
    for (j = 0; j < m; j++) {
      s[j] += r[i] * A[i][j];
      q[i] += A[i][j] * p[j];
    }
  }
}""", {"m": 4, "n": 3}),
    "mvt": ("""
void mvt(int n, double x1[n], double x2[n], double y1[n], double y2[n], double A[n][n]) {
#pragma scop
  for (int i = 0; i < n; i++) for (int j = 0; j < n; j++) x1[i] += A[i][j] * y1[j];
  for (int i = 0; i < n; i++) for (int j = 0; j < n; j++) x2[i] += A[j][i] * y2[j];
#pragma endscop
}""", {"n": 4}),
    "gesummv": ("""
void gesummv(int n, double alpha, double beta, double A[n][n], double B[n][n], double x[n], double y[n]) {
  for (int i = 0; i < n; i++) {
    double t = 0.0;
    y[i] = 0.0;
    for (int j = 0; j < n; j++) { t += A[i][j] * x[j]; y[i] += B[i][j] * x[j]; }
    y[i] = alpha * t + beta * y[i];
  }
}""", {"n": 5}),
    "syrk": ("""
void syrk(int n, int m, double alpha, double beta, double C[n][n], double A[n][m]) {
  for (int i = 0; i < n; i++) {
    for (int j = 0; j <= i; j++) C[i][j] *= beta;
    for (int k = 0; k < m; k++)
      for (int j = 0; j <= i; j++) C[i][j] += alpha * A[i][k] * A[j][k];
  }
}""", {"n": 4, "m": 3}),
    "trmm": ("""
void trmm(int m, int n, double alpha, double A[m][m], double B[m][n]) {
  for (int i = 0; i < m; i++)
    for (int j = 0; j < n; j++) {
      for (int k = i + 1; k < m; k++) B[i][j] += A[k][i] * B[k][j];
      B[i][j] = alpha * B[i][j];
    }
}""", {"m": 4, "n": 3}),
    "cholesky": ("""
void cholesky(int n, double A[n][n]) {
  for (int i = 0; i < n; i++) {
    for (int j = 0; j < i; j++) {
      for (int k = 0; k < j; k++) A[i][j] -= A[i][k] * A[j][k];
      A[i][j] /= A[j][j];
    }
    for (int k = 0; k < i; k++) A[i][i] -= A[i][k] * A[i][k];
    A[i][i] = sqrt(fabs(A[i][i]));
  }
}""", {"n": 5}),
    "lu": ("""
void lu(int n, double A[n][n]) {
  for (int i = 0; i < n; i++) {
    for (int j = 0; j < i; j++) {
      for (int k = 0; k < j; k++) A[i][j] -= A[i][k] * A[k][j];
      A[i][j] /= A[j][j];
    }
    for (int j = i; j < n; j++)
      for (int k = 0; k < i; k++) A[i][j] -= A[i][k] * A[k][j];
  }
}""", {"n": 5}),
    "trisolv": ("""
void trisolv(int n, double L[n][n], double x[n], double b[n]) {
  for (int i = 0; i < n; i++) {
    x[i] = b[i];
    for (int j = 0; j < i; j++) x[i] -= L[i][j] * x[j];
    x[i] = x[i] / L[i][i];
  }
}""", {"n": 5}),
    "jacobi-1d": ("""
void jacobi(int t_max, int n, double A[n], double B[n]) {
  for (int t = 0; t < t_max; t++) {
    for (int i = 1; i < n - 1; i++) B[i] = 0.33333 * (A[i-1] + A[i] + A[i + 1]);
    for (int i = 1; i < n - 1; i++) A[i] = 0.33333 * (B[i-1] + B[i] + B[i + 1]);
  }
}""", {"t_max": 3, "n": 7}),
    "jacobi-2d": ("""
#define STEPS 2
#define SIZE 5
static float A[SIZE][SIZE], B[SIZE][SIZE];
#pragma scop
for (t = 0; t < STEPS; t++) {
  for (i = 1; i < SIZE - 1; i++)
    for (j = 1; j < SIZE - 1; j++)
      B[i][j] = 0.2f * (A[i][j] + A[i][j-1] + A[i][1+j] + A[1+i][j] + A[i-1][j]);
  for (i = 1; i < SIZE - 1; i++)
    for (j = 1; j < SIZE - 1; j++)
      A[i][j] = 0.2f * (B[i][j] + B[i][j-1] + B[i][1+j] + B[1+i][j] + B[i-1][j]);
}
#pragma endscop
""", {}),
    "seidel-2d": ("""
void seidel(int t_max, int n, double A[n][n]) {
  for (int t = 0; t <= t_max - 1; t++)
    for (int i = 1; i <= n - 2; i++)
      for (int j = 1; j <= n - 2; j++)
        A[i][j] = (A[i-1][j-1] + A[i-1][j] + A[i-1][j+1] + A[i][j-1] + A[i][j] + A[i][j+1]
                   + A[i+1][j-1] + A[i+1][j] + A[i+1][j+1]) / 9.0;
}""", {"t_max": 2, "n": 5}),
    "floyd-warshall": ("""
void floyd_warshall(int n, int path[n][n]) {
  for (int k = 0; k < n; k++)
    for (int i = 0; i < n; i++)
      for (int j = 0; j < n; j++)
        path[i][j] = path[i][j] < path[i][k] + path[k][j] ? path[i][j] : path[i][k] + path[k][j];
}""", {"n": 4}),
    "doitgen": ("""
void doitgen(int nr, int nq, int np, double A[nr][nq][np], double C4[np][np]) {
  double sum[np];
  for (int r = 0; r < nr; r++)
    for (int q = 0; q < nq; q++) {
      for (int p = 0; p < np; p++) {
        sum[p] = 0.0;
        for (int s = 0; s < np; s++) sum[p] += A[r][q][s] * C4[s][p];
      }
      for (int p = 0; p < np; p++) A[r][q][p] = sum[p];
    }
}""", {"nr": 2, "nq": 3, "np": 4}),
    "gemver": ("""
void gemver(int n, double alpha, double beta, double A[n][n], double u1[n], double v1[n], double u2[n], double v2[n],
            double w[n], double x[n], double y[n], double z[n]) {
  for (int i = 0; i < n; i++) for (int j = 0; j < n; j++) A[i][j] = A[i][j] + u1[i] * v1[j] + u2[i] * v2[j];
  for (int i = 0; i < n; i++) for (int j = 0; j < n; j++) x[i] = x[i] + beta * A[j][i] * y[j];
  for (int i = 0; i < n; i++) x[i] = x[i] + z[i];
  for (int i = 0; i < n; i++) for (int j = 0; j < n; j++) w[i] = w[i] + alpha * A[i][j] * x[j];
}""", {"n": 4}),
    "polynomial product": ("""
void product(int n, int a[n + 1], int b[n + 1], int c[2 * n + 1]) {
  for (int i = 0; i <= n; i++)
    for (int j = n; j >= 0; j--)
      if (i == 0 || j == n) c[i + j] = a[i] * b[j];
      else c[i + j] += a[i] * b[j];
}""", {"n": 5}),
    "strided convolution with borders": ("""
void conv(int n, float x[n], const float w[3], float y[(n + 1) / 2]) {
  for (int i = 0; i < n; i += 2) {
    y[i / 2] = 0;
    for (int k = -1; k <= 1; k++)
      if (i + k >= 0 && i + k < n) y[i / 2] += w[k + 1] * x[i + k];
  }
}""", {"n": 7}),
    "remainders and quotients of negative numbers": ("""
void f(int n, int a[2 * n + 1], int q[2 * n + 1], int r[9]) {
  for (int i = -n; i <= n; i++) {
    q[i + n] = i / 3;
    r[i % 5 + 4] += a[i + n];
    if (i % 2 != 0) a[i + n] = -i;
    else if (!(i < 3) && i / -2 != -2) a[i + n] = i % -3;
  }
}""", {"n": 7}),
    "falling and triangular loops with steps": ("""
void g(int n, int a[n][n]) {
  for (int i = n - 1; i >= 0; i -= 2)
    for (int j = i; j > 0; --j)
      a[i][j] = a[i][j - 1] + i - j;
  for (int i = 0; i < n; ++i)
    for (int j = i; j < n; j += 3)
      a[j][i] *= 2;
  for (int i = n - 2; i >= 1; i--)
    for (int j = i + 2; j >= i - 1 && j < n; j--)
      a[i][j] = max(a[i][j], i);
}""", {"n": 7}),
    "largest and smallest": ("""
void h(int n, float a[n], float top[1], float low[1], float mid[n]) {
  top[0] = a[0];
  low[0] = a[0];
  for (int i = 1; i < n; i++) {
    top[0] = a[i] > top[0] ? a[i] : top[0];
    low[0] = fminf(a[i], low[0]);
    if (mid[i] < a[i]) mid[i] = a[i];
    mid[0] = i > 2 ? mid[i - 1] : mid[i] * 2.0f;
  }
}""", {"n": 6}),
    "bounds that are extremes": ("""
#define MIN(a, b) ((a) < (b) ? (a) : (b))
#define MAX(a, b) ((a) > (b) ? (a) : (b))
void band(int n, int w, double A[n][n], double x[n], double y[n]) {
  for (int i = 0; i < n; i++)
    for (int j = MAX(0, i - w); j <= MIN(n - 1, i + w); j++)
      y[i] += A[i][j] * x[j];
}""", {"n": 6, "w": 2}),
    "blocked copy": ("""
#define B 3
void copy(int n, short a[n], short b[n]) {
  for (int t = 0; t < n; t += B)
    for (int i = t; i < (t + B < n ? t + B : n); i++)
      b[i] = a[n - 1 - i];
}""", {"n": 8}),
}  # fmt: skip
