"""The 122 loops of the test suite for vectorizing compilers (Callahan, Dongarra and Levine 1988; Levine, Callahan and
Dongarra 1991), written anew in C from their descriptions.

What the suite tests is told by the number: 1xx dependence analysis, 2xx transformations, 3xx idioms, 4xx language.
"""

from __future__ import annotations

import re

_BODIES = {
    "s111": "for (int i = 1; i < n; i += 2) a[i] = a[i - 1] + b[i];",
    "s112": "for (int i = n - 2; i >= 0; i--) a[i + 1] = a[i] + b[i];",
    "s113": "for (int i = 1; i < n; i++) a[i] = a[0] + b[i];",
    "s114": "for (int i = 0; i < n; i++) for (int j = 0; j < i; j++) aa[i][j] = aa[j][i] + bb[i][j];",
    "s115": "for (int j = 0; j < n; j++) for (int i = j + 1; i < n; i++) a[i] -= aa[j][i] * a[j];",
    "s116": """for (int i = 0; i < n - 5; i += 5) {
        a[i] = a[i + 1] * a[i]; a[i + 1] = a[i + 2] * a[i + 1]; a[i + 2] = a[i + 3] * a[i + 2];
        a[i + 3] = a[i + 4] * a[i + 3]; a[i + 4] = a[i + 5] * a[i + 4]; }""",
    "s118": "for (int i = 1; i < n; i++) for (int j = 0; j <= i - 1; j++) a[i] += bb[j][i] * a[i - j - 1];",
    "s119": "for (int i = 1; i < n; i++) for (int j = 1; j < n; j++) aa[i][j] = aa[i - 1][j - 1] + bb[i][j];",
    "s121": "for (int i = 0; i < n - 1; i++) { int j = i + 1; a[i] = a[j] + b[i]; }",
    "s122": "int j = 1, k = 0; for (int i = n1 - 1; i < n; i += n3) { k += j; a[i] += b[n - k]; }",
    "s123": """int j = -1; for (int i = 0; i < n / 2; i++) { j++; a[j] = b[i] + d[i] * e[i];
        if (c[i] > 0) { j++; a[j] = c[i] + d[i] * e[i]; } }""",
    "s124": """int j = -1; for (int i = 0; i < n; i++) {
        if (b[i] > 0) { j++; a[j] = b[i] + d[i] * e[i]; } else { j++; a[j] = c[i] + d[i] * e[i]; } }""",
    "s125": """int k = -1; for (int i = 0; i < n; i++) for (int j = 0; j < n; j++) {
        k++; flat[k] = aa[i][j] + bb[i][j] * cc[i][j]; }""",
    "s126": """int k = 1; for (int i = 0; i < n; i++) {
        for (int j = 1; j < n; j++) { bb[j][i] = bb[j - 1][i] + flat[k - 1] * cc[j][i]; ++k; } ++k; }""",
    "s127": """int j = -1; for (int i = 0; i < n / 2; i++) {
        j++; a[j] = b[i] + c[i] * d[i]; j++; a[j] = b[i] + d[i] * e[i]; }""",
    "s128": """int j = -1; for (int i = 0; i < n / 2; i++) {
        int k = j + 1; a[i] = b[k] - d[i]; j = k + 1; b[k] = a[i] + c[k]; }""",
    "s131": "int m = 1; for (int i = 0; i < n - 1; i++) a[i] = a[i + m] + b[i];",
    "s132": """int m = 0, j = m, k = m + 1;
        for (int i = 1; i < n; i++) aa[j][i] = aa[k][i - 1] + b[i] * c[1];""",
    "s141": """for (int i = 0; i < n; i++) { int k = (i + 1) * i / 2 + i;
        for (int j = i; j < n; j++) { flat[k] += bb[j][i]; k += j + 1; } }""",
    "s151": "shifted(n - 1, 1, a, b);",
    "s152": "for (int i = 0; i < n; i++) { b[i] = d[i] * e[i]; added(a, b, c, i); }",
    "s161": """for (int i = 0; i < n - 1; i++) {
        if (b[i] < 0) c[i + 1] = a[i] + d[i] * d[i]; else a[i] = c[i] + d[i] * e[i]; }""",
    "s162": "if (k > 0) for (int i = 0; i < n - k; i++) a[i] = a[i + k] + b[i] * c[i];",
    "s171": "for (int i = 0; i < n / inc; i++) a[i * inc] += b[i];",
    "s172": "for (int i = n1 - 1; i < n; i += n3) a[i] += b[i];",
    "s173": "int k = n / 2; for (int i = 0; i < n / 2; i++) a[i + k] = a[i] + b[i];",
    "s174": "for (int i = 0; i < m; i++) a[i + m] = a[i] + b[i];",
    "s175": "for (int i = 0; i < n - inc; i += inc) a[i] = a[i + inc] + b[i];",
    "s176": """int m = n / 2; for (int j = 0; j < m; j++) for (int i = 0; i < m; i++)
        a[i] += b[i + m - j - 1] * c[j];""",
    "s211": "for (int i = 1; i < n - 1; i++) { a[i] = b[i - 1] + c[i] * d[i]; b[i] = b[i + 1] - e[i] * d[i]; }",
    "s212": "for (int i = 0; i < n - 1; i++) { a[i] *= c[i]; b[i] += a[i + 1] * d[i]; }",
    "s221": "for (int i = 1; i < n; i++) { a[i] += c[i] * d[i]; b[i] = b[i - 1] + a[i] + d[i]; }",
    "s222": "for (int i = 1; i < n; i++) { a[i] += b[i] * c[i]; e[i] = e[i - 1] * e[i - 1]; a[i] -= b[i] * c[i]; }",
    "s231": "for (int i = 0; i < n; i++) for (int j = 1; j < n; j++) aa[j][i] = aa[j - 1][i] + bb[j][i];",
    "s232": """for (int j = 1; j < n; j++) for (int i = 1; i <= j; i++)
        aa[j][i] = aa[j][i - 1] * aa[j][i - 1] + bb[j][i];""",
    "s233": """for (int i = 1; i < n; i++) { for (int j = 1; j < n; j++) aa[j][i] = aa[j - 1][i] + cc[j][i];
        for (int j = 1; j < n; j++) bb[j][i] = bb[j][i - 1] + cc[j][i]; }""",
    "s234": """int i = 0; while (i < n) { int j = 1;
        while (j < n) { aa[j][i] = aa[j - 1][i] + bb[j - 1][i] * cc[j - 1][i]; j++; } i++; }""",
    "s235": """for (int i = 0; i < n; i++) { a[i] += b[i] * c[i];
        for (int j = 1; j < n; j++) aa[j][i] = aa[j - 1][i] + bb[j][i] * a[i]; }""",
    "s241": "for (int i = 0; i < n - 1; i++) { a[i] = b[i] * c[i] * d[i]; b[i] = a[i] * a[i + 1] * d[i]; }",
    "s242": "for (int i = 1; i < n; i++) a[i] = a[i - 1] + s + t + b[i] + c[i] + d[i];",
    "s243": """for (int i = 0; i < n - 1; i++) {
        a[i] = b[i] + c[i] * d[i]; b[i] = a[i] + d[i] * e[i]; a[i] = b[i] + a[i + 1] * d[i]; }""",
    "s244": """for (int i = 0; i < n - 1; i++) {
        a[i] = b[i] + c[i] * d[i]; b[i] = c[i] + b[i]; a[i + 1] = b[i] + a[i + 1] * d[i]; }""",
    "s251": "float s; for (int i = 0; i < n; i++) { s = b[i] + c[i] * d[i]; a[i] = s * s; }",
    "s252": "float t = 0; for (int i = 0; i < n; i++) { float s = b[i] * c[i]; a[i] = s + t; t = s; }",
    "s253": """for (int i = 0; i < n; i++) {
        if (a[i] > b[i]) { float s = a[i] - b[i] * d[i]; c[i] += s; a[i] = s; } }""",
    "s254": "float x = b[n - 1]; for (int i = 0; i < n; i++) { a[i] = (b[i] + x) * 0.5f; x = b[i]; }",
    "s255": """float x = b[n - 1], y = b[n - 2];
        for (int i = 0; i < n; i++) { a[i] = (b[i] + x + y) * 0.333f; y = x; x = b[i]; }""",
    "s256": """for (int i = 0; i < n; i++) for (int j = 1; j < n; j++) {
        a[j] = 1.0f - a[j - 1]; cc[j][i] = a[j] + bb[j][i] * d[j]; }""",
    "s257": """for (int i = 1; i < n; i++) for (int j = 0; j < n; j++) {
        a[i] = aa[j][i] - a[i - 1]; aa[j][i] = a[i] + bb[j][i]; }""",
    "s258": """float s = 0; for (int i = 0; i < n; i++) {
        if (a[i] > 0) s = d[i] * d[i]; b[i] = s * c[i] + d[i]; e[i] = (s + 1.0f) * aa[0][i]; }""",
    "s261": "for (int i = 1; i < n; i++) { float t = a[i] + b[i]; a[i] = t + c[i - 1]; t = c[i] * d[i]; c[i] = t; }",
    "s271": "for (int i = 0; i < n; i++) if (b[i] > 0) a[i] += b[i] * c[i];",
    "s272": "for (int i = 0; i < n; i++) if (e[i] >= t) { a[i] += c[i] * d[i]; b[i] += c[i] * c[i]; }",
    "s273": """for (int i = 0; i < n; i++) { a[i] += d[i] * e[i]; if (a[i] < 0) b[i] += d[i] * e[i];
        c[i] += a[i] * d[i]; }""",
    "s274": """for (int i = 0; i < n; i++) { a[i] = c[i] + e[i] * d[i];
        if (a[i] > 0) b[i] = a[i] + b[i]; else a[i] = d[i] * e[i]; }""",
    "s275": """for (int i = 0; i < n; i++) if (aa[0][i] > 0)
        for (int j = 1; j < n; j++) aa[j][i] = aa[j - 1][i] + bb[j][i] * cc[j][i];""",
    "s276": """int m = n / 2; for (int i = 0; i < n; i++) {
        if (i + 1 < m) a[i] += b[i] * c[i]; else a[i] += b[i] * d[i]; }""",
    "s277": """for (int i = 0; i < n - 1; i++) if (a[i] < 0) {
        if (b[i] < 0) a[i] += c[i] * d[i]; b[i + 1] = c[i] + d[i] * e[i]; }""",
    "s278": """for (int i = 0; i < n; i++) {
        if (a[i] > 0) c[i] = -c[i] + d[i] * e[i]; else b[i] = -b[i] + d[i] * e[i]; a[i] = b[i] + c[i] * d[i]; }""",
    "s279": """for (int i = 0; i < n; i++) { if (a[i] > 0) c[i] = -c[i] + e[i] * e[i];
        else { b[i] = -b[i] + d[i] * d[i]; if (b[i] > a[i]) c[i] += d[i] * e[i]; } a[i] = b[i] + c[i] * d[i]; }""",
    "s2710": """for (int i = 0; i < n; i++) {
        if (a[i] > b[i]) { a[i] += b[i] * d[i]; if (n > 10) c[i] += d[i] * d[i]; else c[i] = d[i] * e[i] + 1.0f; }
        else { b[i] = a[i] + e[i] * e[i]; if (s > 0) c[i] = a[i] + d[i] * d[i]; else c[i] += e[i] * e[i]; } }""",
    "s2711": "for (int i = 0; i < n; i++) if (b[i] != 0.0f) a[i] += b[i] * c[i];",
    "s2712": "for (int i = 0; i < n; i++) if (a[i] > b[i]) a[i] += b[i] * c[i];",
    "s281": "for (int i = 0; i < n; i++) { float x = a[n - i - 1] + b[i] * c[i]; a[i] = x - 1.0f; b[i] = x; }",
    "s291": "int k = n - 1; for (int i = 0; i < n; i++) { a[i] = (b[i] + b[k]) * 0.5f; k = i; }",
    "s292": """int k = n - 1, l = n - 2;
        for (int i = 0; i < n; i++) { a[i] = (b[i] + b[k] + b[l]) * 0.333f; l = k; k = i; }""",
    "s293": "for (int i = 0; i < n; i++) a[i] = a[0];",
    "s2101": "for (int i = 0; i < n; i++) aa[i][i] += bb[i][i] * cc[i][i];",
    "s2102": "for (int i = 0; i < n; i++) { for (int j = 0; j < n; j++) aa[j][i] = 0; aa[i][i] = 1; }",
    "s2111": "for (int j = 1; j < n; j++) for (int i = 1; i < n; i++) aa[j][i] = (aa[j][i - 1] + aa[j - 1][i]) / 1.9f;",
    "s311": "float s = 0; for (int i = 0; i < n; i++) s += a[i]; return s;",
    "s312": "float p = 1; for (int i = 0; i < n; i++) p *= a[i]; return p;",
    "s313": "float s = 0; for (int i = 0; i < n; i++) s += a[i] * b[i]; return s;",
    "s314": "float x = a[0]; for (int i = 0; i < n; i++) if (a[i] > x) x = a[i]; return x;",
    "s315": """float x = a[0]; int at = 0;
        for (int i = 0; i < n; i++) if (a[i] > x) { x = a[i]; at = i; } return x + at;""",
    "s316": "float x = a[0]; for (int i = 1; i < n; i++) if (a[i] < x) x = a[i]; return x;",
    "s317": "float q = 1; for (int i = 0; i < n / 2; i++) q *= 0.99f; return q;",
    "s318": """int k = inc, at = 0; float x = fabsf(a[0]);
        for (int i = 1; i < n / inc; i++) { if (fabsf(a[k]) > x) { at = i; x = fabsf(a[k]); } k += inc; }
        return x + at;""",
    "s319": """float s = 0; for (int i = 0; i < n; i++) {
        a[i] = c[i] + d[i]; s += a[i]; b[i] = c[i] + e[i]; s += b[i]; } return s;""",
    "s3110": """float x = aa[0][0]; int row = 0, column = 0;
        for (int i = 0; i < n; i++) for (int j = 0; j < n; j++)
            if (aa[i][j] > x) { x = aa[i][j]; row = i; column = j; } return x + row + column;""",
    "s3111": "float s = 0; for (int i = 0; i < n; i++) if (a[i] > 0) s += a[i]; return s;",
    "s3112": "float s = 0; for (int i = 0; i < n; i++) { s += a[i]; b[i] = s; } return s;",
    "s3113": "float x = fabsf(a[0]); for (int i = 0; i < n; i++) if (fabsf(a[i]) > x) x = fabsf(a[i]); return x;",
    "s321": "for (int i = 1; i < n; i++) a[i] += a[i - 1] * b[i];",
    "s322": "for (int i = 2; i < n; i++) a[i] = a[i] + a[i - 1] * b[i] + a[i - 2] * c[i];",
    "s323": "for (int i = 1; i < n; i++) { a[i] = b[i - 1] + c[i] * d[i]; b[i] = a[i] + c[i] * e[i]; }",
    "s331": "int j = -1; for (int i = 0; i < n; i++) if (a[i] < 0) j = i; return j;",
    "s332": """int at = -2; float x = -1;
        for (int i = 0; i < n; i++) if (a[i] > t) { at = i; x = a[i]; break; } return x + at;""",
    "s341": "int j = -1; for (int i = 0; i < n; i++) if (b[i] > 0) { j++; a[j] = b[i]; }",
    "s342": "int j = -1; for (int i = 0; i < n; i++) if (a[i] > 0) { j++; a[i] = b[j]; }",
    "s343": """int k = -1; for (int i = 0; i < n; i++) for (int j = 0; j < n; j++)
        if (bb[j][i] > 0) { k++; flat[k] = aa[j][i]; }""",
    "s351": """for (int i = 0; i < n - 4; i += 5) { a[i] += t * b[i]; a[i + 1] += t * b[i + 1];
        a[i + 2] += t * b[i + 2]; a[i + 3] += t * b[i + 3]; a[i + 4] += t * b[i + 4]; }""",
    "s352": """float s = 0; for (int i = 0; i < n - 4; i += 5)
        s += a[i] * b[i] + a[i + 1] * b[i + 1] + a[i + 2] * b[i + 2] + a[i + 3] * b[i + 3] + a[i + 4] * b[i + 4];
        return s;""",
    "s353": """for (int i = 0; i < n - 4; i += 5) { a[i] += t * b[ip[i]]; a[i + 1] += t * b[ip[i + 1]];
        a[i + 2] += t * b[ip[i + 2]]; a[i + 3] += t * b[ip[i + 3]]; a[i + 4] += t * b[ip[i + 4]]; }""",
    "s411": "int i = -1; while (i < n - 1) { i++; a[i] += b[i] * c[i]; }",
    "s412": "int i = -1; for (;;) { i += inc; if (i >= n) break; a[i] += b[i] * c[i]; }",
    "s413": """int i = 0; for (;;) { if (i >= n - 1) break; b[i] = b[i] + d[i] * e[i];
        a[i] = c[i] + d[i] * e[i]; i++; }""",
    "s414": """int i = 0; do { for (int j = 1; j < n; j++) aa[j][i] = aa[j - 1][i] + bb[j][i] * cc[j][i]; i++; }
        while (i < n);""",
    "s415": "int i = -1; while (1) { i++; a[i] += b[i] * c[i]; if (a[i + 1] < 0 || i >= n - 2) break; }",
    "s421": "float *y = flat; for (int i = 0; i < n - 1; i++) flat[i] = y[i + 1] + a[i];",
    "s422": "float *x = flat + 4; for (int i = 0; i < n; i++) x[i] = flat[i + 8] + a[i];",
    "s423": "float *x = flat + 64; for (int i = 0; i < n - 1; i++) flat[i + 1] = x[i] + a[i];",
    "s424": "float *x = flat + 63; for (int i = 0; i < n - 1; i++) x[i + 1] = flat[i] + a[i];",
    "s431": "int m = 2 * 1 - 2; for (int i = 0; i < n; i++) a[i] = a[i + m] + b[i];",
    "s432": "int m = 0, l = m + 1; for (int i = 0; i < n - 1; i++) a[i] = a[i + l] + b[i];",
    "s441": """for (int i = 0; i < n; i++) { if (d[i] < 0) a[i] += b[i] * c[i];
        else if (d[i] == 0) a[i] += b[i] * b[i]; else a[i] += c[i] * c[i]; }""",
    "s442": """for (int i = 0; i < n; i++) switch (ip[i]) { case 1: a[i] += b[i] * b[i]; break;
        case 2: a[i] += c[i] * c[i]; break; case 3: a[i] += d[i] * d[i]; break; default: a[i] += e[i] * e[i]; }""",
    "s443": "for (int i = 0; i < n; i++) if (d[i] <= 0) a[i] += b[i] * c[i]; else a[i] += b[i] * b[i];",
    "s451": "for (int i = 0; i < n; i++) a[i] = sinf(b[i]) + cosf(c[i]);",
    "s452": "for (int i = 0; i < n; i++) a[i] = b[i] + c[i] * (float)(i + 1);",
    "s453": "float s = 0; for (int i = 0; i < n; i++) { s += 2.0f; a[i] = s * b[i]; }",
    "s471": "for (int i = 0; i < m; i++) { x[i] = b[i] + d[i] * d[i]; passed(); b[i] = c[i] + d[i] * e[i]; }",
    "s481": "for (int i = 0; i < n; i++) { if (d[i] < 0) exit(0); a[i] += b[i] * c[i]; }",
    "s482": "for (int i = 0; i < n; i++) { a[i] += b[i] * c[i]; if (c[i] > b[i]) break; }",
    "s491": "for (int i = 0; i < n; i++) a[ip[i]] = b[i] + c[i] * d[i];",
    "s4112": "for (int i = 0; i < n; i++) a[i] += b[ip[i]] * s;",
    "s4113": "for (int i = 0; i < n; i++) a[ip[i]] = b[ip[i]] + c[i];",
    "s4114": "for (int i = n1 - 1; i < n; i++) { int k = ip[i]; a[i] = b[i] + c[n - k - 1] * d[i]; }",
    "s4115": "float s = 0; for (int i = 0; i < n; i++) s += a[i] * b[ip[i]]; return s;",
    "s4116": "float s = 0; for (int i = 0; i < n - 1; i++) s += a[inc + i] * aa[j - 1][ip[i]]; return s;",
    "s4117": "for (int i = 0; i < n; i++) a[i] = b[i] + c[i / 2] * d[i];",
    "s4121": "for (int i = 0; i < n; i++) a[i] += PRODUCT(b[i], c[i]);",
}  # fmt: skip

_OWN = {  # what a loop is read with: functions and macros of its file
    "s151": """static void shifted(int n, int m, float a[n + m], float b[n]) {
        for (int i = 0; i < n; i++) a[i] = a[i + m] + b[i]; }""",
    "s152": "static void added(float a[], float b[], float c[], int i) { a[i] += b[i] * c[i]; }",
    "s471": "void passed(void);",
    "s4121": "#define PRODUCT(x, y) ((x) * (y))",
}
_ARRAYS = {
    "flat": "float flat[n * n + 100]", "ip": "int ip[n]", "aa": "float aa[n][n]", "bb": "float bb[n][n]",
    "cc": "float cc[n][n]", "m": "int m", "k": "int k", "inc": "int inc", "n1": "int n1", "n3": "int n3",
    "s": "float s", "t": "float t", "x": "float x[n]", "j": "int j",
    **{name: f"float {name}[n]" for name in "abcde"},
}  # fmt: skip
SIZES = {"n": 20, "m": 10, "k": 3, "inc": 2, "n1": 1, "n3": 1, "j": 1}


def _text(name: str, body: str) -> str:
    words = set(re.findall(r"[A-Za-z_]\w*", body))
    declared = set(re.findall(r"(?:int|float) \*?(\w+)", body)) | set(re.findall(r", (\w+) = ", body))
    used = [spelled for each, spelled in _ARRAYS.items() if each in words - declared]
    kind = "void" if "return" not in words else "float"
    own = _OWN.get(name, "")
    return f"{own}\n{kind} {name}(int n{''.join(f', {each}' for each in used)}) {{\n{body}\n}}\n".lstrip("\n")


LOOPS = {name: _text(name, body) for name, body in _BODIES.items()}
