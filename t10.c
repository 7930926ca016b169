#include <stdlib.h>
__attribute__((noinline)) void f(double A[97][97], float B[97]) {
/* Written by polymap. Order: chosen (rows of S0, S1, S2 in strips, whose iterations run side by side). Instance -> time, compared lexicographically:
   { S0[i] -> [(0), (floor((i)/8)), (0), (i), (0), (0), (0)] }
   { S1[i, j] -> [(0), (floor((i)/8)), (1), (-1 + j), (0), (i), (0)] }
   { S2[i] -> [(0), (floor((i)/8)), (2), (i), (0), (0), (0)] } */
#define pm_min(a, b) ((a) < (b) ? (a) : (b))
#if defined(__clang__)
#define pm_single _Pragma("clang loop vectorize(disable)")
#else
#define pm_single
#endif
{
    __attribute__((aligned(64))) float t[97];
    for (long c1 = 0; c1 <= 12; ++c1) {
        pm_single
        for (long c3 = 8 * c1; c3 <= pm_min(96, 8 * c1 + 7); ++c3) {
            const long i = c3;
            t[i] = A[i][0];
        }
        for (long c3 = 0; c3 <= 95; ++c3) {
            pm_single
            for (long c5 = 8 * c1; c5 <= pm_min(96, 8 * c1 + 7); ++c5) {
                const long i = c5;
                const long j = c3 + 1;
                t[i] = ((t[i] > A[i][j]) ? t[i] : A[i][j]);
            }
        }
        pm_single
        for (long c3 = 8 * c1; c3 <= pm_min(96, 8 * c1 + 7); ++c3) {
            const long i = c3;
            B[i] = t[i];
        }
    }
}
#undef pm_min
#undef pm_single
}
int main(void){double*a=calloc(97*97,8);float*b=calloc(97,4);f((void*)a,b);return 0;}