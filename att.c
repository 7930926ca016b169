/*
 * attention; written by polymap.
 * The order chosen:
 *   S0[h,i,j,d] -> [0, h, 0, i_tile: floor((i)/96), 0, j_tile: floor((j)/96), 0, d_tile: floor((d)/128), 0, d, 0, i, 0, j, 0]
 *   S1[h,i] -> [1, h_2: h, 0, i_2: i, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]
 *   S2[h,i,j] -> [2, h_3: h, 0, i_3: i, 0, j_2: j, 0, 0, 0, 0, 0, 0, 0, 0, 0]
 *   S3[h,i,j] -> [3, h_4: h, 0, i_4: i, 0, j_3: j, 0, 0, 0, 0, 0, 0, 0, 0, 0]
 *   S4[h,i,j] -> [4, h_5: h, 0, i_tile_2: floor((i)/8), 0, j_tile_2: floor((j)/128), 0, j_4: j, 0, i_5: i, 0, 0, 0, 0, 0]
 *   S5[h,i,e,j] -> [5, h_6: h, 0, i_tile_2_2: floor((i)/96), 0, e_tile: floor((e)/96), 0, j_tile_2_2: floor((j)/128), 0, j_5: j, 0, i_6: i, 0, e, 0]
 *   S6[h,i,e] -> [6, h_7: h, 0, i_7: i, 0, e_2: e, 0, 0, 0, 0, 0, 0, 0, 0, 0]
 * What changed: S0 in tiles of 96 i x 96 j x 128 d, its sums in vector registers
 * What changed: S5 in tiles of 96 i x 96 e x 128 j, its sums in vector registers
 * What changed: S4 in tiles of 8 i x 128 j, its sums in vector registers
 * To build it: cc -O3 -march=native -ffp-contract=off -fno-math-errno -fno-tree-slp-vectorize -fwrapv
 */
#include <limits.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#ifdef __clang__ /* 14 hands loads on to the next iteration where arrays are known to be apart: slow in vectors */
#define restrict
#endif
#define MIN(a, b) ((a) < (b) ? (a) : (b))
#define MAX(a, b) ((a) > (b) ? (a) : (b))
typedef float float_lanes __attribute__((vector_size(64)));
typedef float float_lanes_any __attribute__((vector_size(64), aligned(4), may_alias));
static void tile_S0(float *p0, const float *p1, const float *p2, const long n0, const long n1, const long n2, const long n3)
{
    const long i0 = 96 * n1, i1 = ((n1 == 0) ? 95 : 127);
    const long k0 = 0, k1 = 63;
    const long j0 = 96 * n2, j1 = ((n2 == 0) ? 95 : 127), steps = k1 - k0 + 1;
    float r0[12288] __attribute__((aligned(64)));
    for (long i = i0; i <= i1; i += 12) {
        const long i_left = i1 - i + 1;
        const long i_count = i_left < 12 ? i_left : 12;
        for (long u = 0; u < i_count; ++u)
            for (long k = k0; k <= k1; ++k)
                r0[(i - i0) * 128 + (k - k0) * 12 + u] = p1[n0 * 8192 + (i + u) * 64 + k];
        if (i_count < 12)
            for (long k = k0; k <= k1; ++k)
                for (long u = i_count; u < 12; ++u)
                    r0[(i - i0) * 128 + (k - k0) * 12 + u] = 0;
    }
    float l1[12288] __attribute__((aligned(64)));
    for (long j = j0; j <= j1; j += 32) {
        const long j_left = j1 - j + 1;
        const long j_count = j_left < 32 ? j_left : 32;
        for (long u = 0; u < j_count; ++u)
            for (long k = k0; k <= k1; ++k)
                l1[(j - j0) * 128 + (k - k0) * 32 + u] = p2[n0 * 8192 + (j + u) * 64 + k];
        if (j_count < 32)
            for (long k = k0; k <= k1; ++k)
                for (long u = j_count; u < 32; ++u)
                    l1[(j - j0) * 128 + (k - k0) * 32 + u] = 0;
    }
    for (long j = j0; j <= j1; j += 32)
        for (long r = i0; r <= i1; r += 12) {
            const long count = i1 - r + 1 < 12 ? i1 - r + 1 : 12;
            long low[12], high[12], any = 0, all = count == 12;
            for (long u = 0; u < count; ++u) {
                const long i = r + u;
                low[u] = (96 * n2) - j;
                high[u] = (((n2 == 0) ? 95 : 127)) - j + 1;
                (void)i;
                low[u] = low[u] < 0 ? 0 : low[u];
                high[u] = high[u] > 32 ? 32 : high[u];
                any |= low[u] < high[u];
                all &= low[u] == 0 && high[u] == 32;
            }
            if (!any)
                continue;
            float part[384] __attribute__((aligned(64)));
            for (long u = 0; !all && u < 384; ++u)
                part[u] = 0;
            float *at = all ? &p0[n0 * 16384 + r * 128 + j] : part;
            const long step = all ? 128 : 32;
            for (long u = 0; !all && u < count; ++u)
                for (long v = low[u]; v < high[u]; ++v)
                    part[u * 32 + v] = p0[n0 * 16384 + (r + u) * 128 + (j + v)];
            float_lanes s0_0 = *(float_lanes_any *)(at + 0 * step + 0);
            float_lanes s0_1 = *(float_lanes_any *)(at + 0 * step + 16);
            float_lanes s1_0 = *(float_lanes_any *)(at + 1 * step + 0);
            float_lanes s1_1 = *(float_lanes_any *)(at + 1 * step + 16);
            float_lanes s2_0 = *(float_lanes_any *)(at + 2 * step + 0);
            float_lanes s2_1 = *(float_lanes_any *)(at + 2 * step + 16);
            float_lanes s3_0 = *(float_lanes_any *)(at + 3 * step + 0);
            float_lanes s3_1 = *(float_lanes_any *)(at + 3 * step + 16);
            float_lanes s4_0 = *(float_lanes_any *)(at + 4 * step + 0);
            float_lanes s4_1 = *(float_lanes_any *)(at + 4 * step + 16);
            float_lanes s5_0 = *(float_lanes_any *)(at + 5 * step + 0);
            float_lanes s5_1 = *(float_lanes_any *)(at + 5 * step + 16);
            float_lanes s6_0 = *(float_lanes_any *)(at + 6 * step + 0);
            float_lanes s6_1 = *(float_lanes_any *)(at + 6 * step + 16);
            float_lanes s7_0 = *(float_lanes_any *)(at + 7 * step + 0);
            float_lanes s7_1 = *(float_lanes_any *)(at + 7 * step + 16);
            float_lanes s8_0 = *(float_lanes_any *)(at + 8 * step + 0);
            float_lanes s8_1 = *(float_lanes_any *)(at + 8 * step + 16);
            float_lanes s9_0 = *(float_lanes_any *)(at + 9 * step + 0);
            float_lanes s9_1 = *(float_lanes_any *)(at + 9 * step + 16);
            float_lanes s10_0 = *(float_lanes_any *)(at + 10 * step + 0);
            float_lanes s10_1 = *(float_lanes_any *)(at + 10 * step + 16);
            float_lanes s11_0 = *(float_lanes_any *)(at + 11 * step + 0);
            float_lanes s11_1 = *(float_lanes_any *)(at + 11 * step + 16);
            const float *r0_at = r0 + (r - i0) * 128;
            const float *l1_at = l1 + (j - j0) * 128;
            for (long k = 0; k < steps; ++k) {
                const float_lanes l1_0 = *(const float_lanes_any *)(l1_at + 0);
                const float_lanes l1_1 = *(const float_lanes_any *)(l1_at + 16);
                s0_0 = s0_0 + (r0_at[0] * l1_0);
                s0_1 = s0_1 + (r0_at[0] * l1_1);
                s1_0 = s1_0 + (r0_at[1] * l1_0);
                s1_1 = s1_1 + (r0_at[1] * l1_1);
                s2_0 = s2_0 + (r0_at[2] * l1_0);
                s2_1 = s2_1 + (r0_at[2] * l1_1);
                s3_0 = s3_0 + (r0_at[3] * l1_0);
                s3_1 = s3_1 + (r0_at[3] * l1_1);
                s4_0 = s4_0 + (r0_at[4] * l1_0);
                s4_1 = s4_1 + (r0_at[4] * l1_1);
                s5_0 = s5_0 + (r0_at[5] * l1_0);
                s5_1 = s5_1 + (r0_at[5] * l1_1);
                s6_0 = s6_0 + (r0_at[6] * l1_0);
                s6_1 = s6_1 + (r0_at[6] * l1_1);
                s7_0 = s7_0 + (r0_at[7] * l1_0);
                s7_1 = s7_1 + (r0_at[7] * l1_1);
                s8_0 = s8_0 + (r0_at[8] * l1_0);
                s8_1 = s8_1 + (r0_at[8] * l1_1);
                s9_0 = s9_0 + (r0_at[9] * l1_0);
                s9_1 = s9_1 + (r0_at[9] * l1_1);
                s10_0 = s10_0 + (r0_at[10] * l1_0);
                s10_1 = s10_1 + (r0_at[10] * l1_1);
                s11_0 = s11_0 + (r0_at[11] * l1_0);
                s11_1 = s11_1 + (r0_at[11] * l1_1);
                r0_at += 12;
                l1_at += 32;
            }
            *(float_lanes_any *)(at + 0 * step + 0) = s0_0;
            *(float_lanes_any *)(at + 0 * step + 16) = s0_1;
            *(float_lanes_any *)(at + 1 * step + 0) = s1_0;
            *(float_lanes_any *)(at + 1 * step + 16) = s1_1;
            *(float_lanes_any *)(at + 2 * step + 0) = s2_0;
            *(float_lanes_any *)(at + 2 * step + 16) = s2_1;
            *(float_lanes_any *)(at + 3 * step + 0) = s3_0;
            *(float_lanes_any *)(at + 3 * step + 16) = s3_1;
            *(float_lanes_any *)(at + 4 * step + 0) = s4_0;
            *(float_lanes_any *)(at + 4 * step + 16) = s4_1;
            *(float_lanes_any *)(at + 5 * step + 0) = s5_0;
            *(float_lanes_any *)(at + 5 * step + 16) = s5_1;
            *(float_lanes_any *)(at + 6 * step + 0) = s6_0;
            *(float_lanes_any *)(at + 6 * step + 16) = s6_1;
            *(float_lanes_any *)(at + 7 * step + 0) = s7_0;
            *(float_lanes_any *)(at + 7 * step + 16) = s7_1;
            *(float_lanes_any *)(at + 8 * step + 0) = s8_0;
            *(float_lanes_any *)(at + 8 * step + 16) = s8_1;
            *(float_lanes_any *)(at + 9 * step + 0) = s9_0;
            *(float_lanes_any *)(at + 9 * step + 16) = s9_1;
            *(float_lanes_any *)(at + 10 * step + 0) = s10_0;
            *(float_lanes_any *)(at + 10 * step + 16) = s10_1;
            *(float_lanes_any *)(at + 11 * step + 0) = s11_0;
            *(float_lanes_any *)(at + 11 * step + 16) = s11_1;
            for (long u = 0; !all && u < count; ++u)
                for (long v = low[u]; v < high[u]; ++v)
                    p0[n0 * 16384 + (r + u) * 128 + (j + v)] = part[u * 32 + v];
        }
}

typedef float float_lanes __attribute__((vector_size(64)));
typedef float float_lanes_any __attribute__((vector_size(64), aligned(4), may_alias));
static void tile_S5(float *p0, const float *p1, const float *p2, const long n0, const long n1, const long n2, const long n3)
{
    const long i0 = 96 * n1, i1 = ((n1 == 0) ? 95 : 127);
    const long k0 = 0, k1 = 127;
    const long j0 = 0, j1 = 63, steps = k1 - k0 + 1;
    float r0[12288] __attribute__((aligned(64)));
    for (long i = i0; i <= i1; i += 12) {
        const long i_left = i1 - i + 1;
        const long i_count = i_left < 12 ? i_left : 12;
        for (long u = 0; u < i_count; ++u)
            for (long k = k0; k <= k1; ++k)
                r0[(i - i0) * 128 + (k - k0) * 12 + u] = p1[n0 * 16384 + (i + u) * 128 + k];
        if (i_count < 12)
            for (long k = k0; k <= k1; ++k)
                for (long u = i_count; u < 12; ++u)
                    r0[(i - i0) * 128 + (k - k0) * 12 + u] = 0;
    }
    float l1[12288] __attribute__((aligned(64)));
    for (long j = j0; j <= j1; j += 32) {
        const long j_left = j1 - j + 1;
        const long j_count = j_left < 32 ? j_left : 32;
        for (long k = k0; k <= k1; ++k)
            for (long u = 0; u < j_count; ++u)
                l1[(j - j0) * 128 + (k - k0) * 32 + u] = p2[n0 * 8192 + k * 64 + (j + u)];
        if (j_count < 32)
            for (long k = k0; k <= k1; ++k)
                for (long u = j_count; u < 32; ++u)
                    l1[(j - j0) * 128 + (k - k0) * 32 + u] = 0;
    }
    for (long j = j0; j <= j1; j += 32)
        for (long r = i0; r <= i1; r += 12) {
            const long count = i1 - r + 1 < 12 ? i1 - r + 1 : 12;
            long low[12], high[12], any = 0, all = count == 12;
            for (long u = 0; u < count; ++u) {
                const long i = r + u;
                low[u] = (0) - j;
                high[u] = (63) - j + 1;
                (void)i;
                low[u] = low[u] < 0 ? 0 : low[u];
                high[u] = high[u] > 32 ? 32 : high[u];
                any |= low[u] < high[u];
                all &= low[u] == 0 && high[u] == 32;
            }
            if (!any)
                continue;
            float part[384] __attribute__((aligned(64)));
            for (long u = 0; !all && u < 384; ++u)
                part[u] = 0;
            float *at = all ? &p0[n0 * 8192 + r * 64 + j] : part;
            const long step = all ? 64 : 32;
            for (long u = 0; !all && u < count; ++u)
                for (long v = low[u]; v < high[u]; ++v)
                    part[u * 32 + v] = p0[n0 * 8192 + (r + u) * 64 + (j + v)];
            float_lanes s0_0 = *(float_lanes_any *)(at + 0 * step + 0);
            float_lanes s0_1 = *(float_lanes_any *)(at + 0 * step + 16);
            float_lanes s1_0 = *(float_lanes_any *)(at + 1 * step + 0);
            float_lanes s1_1 = *(float_lanes_any *)(at + 1 * step + 16);
            float_lanes s2_0 = *(float_lanes_any *)(at + 2 * step + 0);
            float_lanes s2_1 = *(float_lanes_any *)(at + 2 * step + 16);
            float_lanes s3_0 = *(float_lanes_any *)(at + 3 * step + 0);
            float_lanes s3_1 = *(float_lanes_any *)(at + 3 * step + 16);
            float_lanes s4_0 = *(float_lanes_any *)(at + 4 * step + 0);
            float_lanes s4_1 = *(float_lanes_any *)(at + 4 * step + 16);
            float_lanes s5_0 = *(float_lanes_any *)(at + 5 * step + 0);
            float_lanes s5_1 = *(float_lanes_any *)(at + 5 * step + 16);
            float_lanes s6_0 = *(float_lanes_any *)(at + 6 * step + 0);
            float_lanes s6_1 = *(float_lanes_any *)(at + 6 * step + 16);
            float_lanes s7_0 = *(float_lanes_any *)(at + 7 * step + 0);
            float_lanes s7_1 = *(float_lanes_any *)(at + 7 * step + 16);
            float_lanes s8_0 = *(float_lanes_any *)(at + 8 * step + 0);
            float_lanes s8_1 = *(float_lanes_any *)(at + 8 * step + 16);
            float_lanes s9_0 = *(float_lanes_any *)(at + 9 * step + 0);
            float_lanes s9_1 = *(float_lanes_any *)(at + 9 * step + 16);
            float_lanes s10_0 = *(float_lanes_any *)(at + 10 * step + 0);
            float_lanes s10_1 = *(float_lanes_any *)(at + 10 * step + 16);
            float_lanes s11_0 = *(float_lanes_any *)(at + 11 * step + 0);
            float_lanes s11_1 = *(float_lanes_any *)(at + 11 * step + 16);
            const float *r0_at = r0 + (r - i0) * 128;
            const float *l1_at = l1 + (j - j0) * 128;
            for (long k = 0; k < steps; ++k) {
                const float_lanes l1_0 = *(const float_lanes_any *)(l1_at + 0);
                const float_lanes l1_1 = *(const float_lanes_any *)(l1_at + 16);
                s0_0 = s0_0 + (r0_at[0] * l1_0);
                s0_1 = s0_1 + (r0_at[0] * l1_1);
                s1_0 = s1_0 + (r0_at[1] * l1_0);
                s1_1 = s1_1 + (r0_at[1] * l1_1);
                s2_0 = s2_0 + (r0_at[2] * l1_0);
                s2_1 = s2_1 + (r0_at[2] * l1_1);
                s3_0 = s3_0 + (r0_at[3] * l1_0);
                s3_1 = s3_1 + (r0_at[3] * l1_1);
                s4_0 = s4_0 + (r0_at[4] * l1_0);
                s4_1 = s4_1 + (r0_at[4] * l1_1);
                s5_0 = s5_0 + (r0_at[5] * l1_0);
                s5_1 = s5_1 + (r0_at[5] * l1_1);
                s6_0 = s6_0 + (r0_at[6] * l1_0);
                s6_1 = s6_1 + (r0_at[6] * l1_1);
                s7_0 = s7_0 + (r0_at[7] * l1_0);
                s7_1 = s7_1 + (r0_at[7] * l1_1);
                s8_0 = s8_0 + (r0_at[8] * l1_0);
                s8_1 = s8_1 + (r0_at[8] * l1_1);
                s9_0 = s9_0 + (r0_at[9] * l1_0);
                s9_1 = s9_1 + (r0_at[9] * l1_1);
                s10_0 = s10_0 + (r0_at[10] * l1_0);
                s10_1 = s10_1 + (r0_at[10] * l1_1);
                s11_0 = s11_0 + (r0_at[11] * l1_0);
                s11_1 = s11_1 + (r0_at[11] * l1_1);
                r0_at += 12;
                l1_at += 32;
            }
            *(float_lanes_any *)(at + 0 * step + 0) = s0_0;
            *(float_lanes_any *)(at + 0 * step + 16) = s0_1;
            *(float_lanes_any *)(at + 1 * step + 0) = s1_0;
            *(float_lanes_any *)(at + 1 * step + 16) = s1_1;
            *(float_lanes_any *)(at + 2 * step + 0) = s2_0;
            *(float_lanes_any *)(at + 2 * step + 16) = s2_1;
            *(float_lanes_any *)(at + 3 * step + 0) = s3_0;
            *(float_lanes_any *)(at + 3 * step + 16) = s3_1;
            *(float_lanes_any *)(at + 4 * step + 0) = s4_0;
            *(float_lanes_any *)(at + 4 * step + 16) = s4_1;
            *(float_lanes_any *)(at + 5 * step + 0) = s5_0;
            *(float_lanes_any *)(at + 5 * step + 16) = s5_1;
            *(float_lanes_any *)(at + 6 * step + 0) = s6_0;
            *(float_lanes_any *)(at + 6 * step + 16) = s6_1;
            *(float_lanes_any *)(at + 7 * step + 0) = s7_0;
            *(float_lanes_any *)(at + 7 * step + 16) = s7_1;
            *(float_lanes_any *)(at + 8 * step + 0) = s8_0;
            *(float_lanes_any *)(at + 8 * step + 16) = s8_1;
            *(float_lanes_any *)(at + 9 * step + 0) = s9_0;
            *(float_lanes_any *)(at + 9 * step + 16) = s9_1;
            *(float_lanes_any *)(at + 10 * step + 0) = s10_0;
            *(float_lanes_any *)(at + 10 * step + 16) = s10_1;
            *(float_lanes_any *)(at + 11 * step + 0) = s11_0;
            *(float_lanes_any *)(at + 11 * step + 16) = s11_1;
            for (long u = 0; !all && u < count; ++u)
                for (long v = low[u]; v < high[u]; ++v)
                    p0[n0 * 8192 + (r + u) * 64 + (j + v)] = part[u * 32 + v];
        }
}

static void tile_S4(float *p0, const float *p1, const long n0, const long n1, const long n2)
{
    const long i0 = 8 * n1, i1 = 8 * n1 + 7;
    const long k0 = 0, k1 = 127;
    long i = i0;
    for (; i + 7 <= i1; i += 8) {
        float s0 = p0[n0 * 128 + (i + 0)];
        float s1 = p0[n0 * 128 + (i + 1)];
        float s2 = p0[n0 * 128 + (i + 2)];
        float s3 = p0[n0 * 128 + (i + 3)];
        float s4 = p0[n0 * 128 + (i + 4)];
        float s5 = p0[n0 * 128 + (i + 5)];
        float s6 = p0[n0 * 128 + (i + 6)];
        float s7 = p0[n0 * 128 + (i + 7)];
        for (long k = k0; k <= k1; ++k) {
            s0 = s0 + (p1[n0 * 16384 + (i + 0) * 128 + k]);
            s1 = s1 + (p1[n0 * 16384 + (i + 1) * 128 + k]);
            s2 = s2 + (p1[n0 * 16384 + (i + 2) * 128 + k]);
            s3 = s3 + (p1[n0 * 16384 + (i + 3) * 128 + k]);
            s4 = s4 + (p1[n0 * 16384 + (i + 4) * 128 + k]);
            s5 = s5 + (p1[n0 * 16384 + (i + 5) * 128 + k]);
            s6 = s6 + (p1[n0 * 16384 + (i + 6) * 128 + k]);
            s7 = s7 + (p1[n0 * 16384 + (i + 7) * 128 + k]);
        }
        p0[n0 * 128 + (i + 0)] = s0;
        p0[n0 * 128 + (i + 1)] = s1;
        p0[n0 * 128 + (i + 2)] = s2;
        p0[n0 * 128 + (i + 3)] = s3;
        p0[n0 * 128 + (i + 4)] = s4;
        p0[n0 * 128 + (i + 5)] = s5;
        p0[n0 * 128 + (i + 6)] = s6;
        p0[n0 * 128 + (i + 7)] = s7;
    }
    for (; i + 0 <= i1; i += 1) {
        float s0 = p0[n0 * 128 + (i + 0)];
        for (long k = k0; k <= k1; ++k) {
            s0 = s0 + (p1[n0 * 16384 + (i + 0) * 128 + k]);
        }
        p0[n0 * 128 + (i + 0)] = s0;
    }
}

void polymap_native(const float *restrict Q, const float *restrict K, const float *restrict V, float *restrict Y)
{
    char *const block = aligned_alloc(64, 1179648);
    if (!block)
        abort(); /* no memory for the temporary arrays */
    float t0_S[196608];
    float t1_M[1536];
    float *const restrict t2_E = (float *)(block + 0);
    float t3_Z[1536];
    float *const restrict t4_O = (float *)(block + 786432);
    for (long at = 0; at < 196608; ++at) {
        t0_S[at] = 0;
    }
    for (long at = 0; at < 1536; ++at) {
        t3_Z[at] = 0;
    }
    for (long at = 0; at < 98304; ++at) {
        t4_O[at] = 0;
    }
    for (long c1 = 0; c1 <= 11; ++c1) {
        for (long c3 = 0; c3 <= 1; ++c3) {
            for (long c5 = 0; c5 <= 1; ++c5) {
                const long n0 = c1;
                const long n1 = c3;
                const long n2 = c5;
                const long n3 = 0;
                tile_S0(t0_S, Q, K, n0, n1, n2, n3);
            }
        }
    }
    for (long c1 = 0; c1 <= 11; ++c1) {
        for (long c3 = 0; c3 <= 127; ++c3) {
            const long d0 = c1;
            const long d1 = c3;
            {
                t1_M[d0 * 128 + d1] = (float)(-(1000000.0));
            }
        }
    }
    for (long c1 = 0; c1 <= 11; ++c1) {
        for (long c3 = 0; c3 <= 127; ++c3) {
            for (long c5 = 0; c5 <= 127; ++c5) {
                const long d0 = c1;
                const long d1 = c3;
                const long d2 = c5;
                {
                    const float a0 = t0_S[d0 * 16384 + d1 * 128 + d2];
                    t1_M[d0 * 128 + d1] = MAX(t1_M[d0 * 128 + d1], a0);
                }
            }
        }
    }
    for (long c1 = 0; c1 <= 11; ++c1) {
        for (long c3 = 0; c3 <= 127; ++c3) {
            for (long c5 = 0; c5 <= 127; ++c5) {
                const long d0 = c1;
                const long d1 = c3;
                const long d2 = c5;
                {
                    const float a0 = t0_S[d0 * 16384 + d1 * 128 + d2];
                    const float a1 = t1_M[d0 * 128 + d1];
                    t2_E[d0 * 16384 + d1 * 128 + d2] = (float)(exp((double)(a0 - a1) * 0.125));
                }
            }
        }
    }
    for (long c1 = 0; c1 <= 11; ++c1) {
        for (long c3 = 0; c3 <= 15; ++c3) {
            const long n0 = c1;
            const long n1 = c3;
            const long n2 = 0;
            tile_S4(t3_Z, t2_E, n0, n1, n2);
        }
    }
    for (long c1 = 0; c1 <= 11; ++c1) {
        for (long c3 = 0; c3 <= 1; ++c3) {
            const long n0 = c1;
            const long n1 = c3;
            const long n2 = 0;
            const long n3 = 0;
            tile_S5(t4_O, t2_E, V, n0, n1, n2, n3);
        }
    }
    for (long c1 = 0; c1 <= 11; ++c1) {
        for (long c3 = 0; c3 <= 127; ++c3) {
            for (long c5 = 0; c5 <= 63; ++c5) {
                const long d0 = c1;
                const long d1 = c3;
                const long d4 = c5;
                {
                    const float a0 = t4_O[d0 * 8192 + d1 * 64 + d4];
                    const float a1 = t3_Z[d0 * 128 + d1];
                    Y[d0 * 8192 + d1 * 64 + d4] = a0 / a1;
                }
            }
        }
    }
    free(block);
}
