/*
 * A remark. * /
 */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#define MIN(a, b) ((a) < (b) ? (a) : (b))
#define MAX(a, b) ((a) > (b) ? (a) : (b))
#ifdef __cplusplus
#define restrict __restrict__
#endif
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && defined(__AVX__)
#define HOLD(vector) __asm__("" : : "x"(vector))
#define COPIED(vector) __asm__("" : "+x"(vector))
#else
#define HOLD(vector)
#define COPIED(vector)
#endif
#if defined(__clang__)
#define WIDE __attribute__((min_vector_width(256)))
#else
#define WIDE
#endif
typedef float vec __attribute__((vector_size(32)));
typedef float any_float __attribute__((vector_size(32), aligned(4), may_alias));
typedef float vec_4 __attribute__((vector_size(16)));
typedef float any_float_4 __attribute__((vector_size(16), aligned(4), may_alias));

static WIDE void gemm_tile0(const float *restrict A, const float *restrict B_packed, float *restrict C, const long a0_at, const long a1_at, const long o_at)
{
    vec s0_0 = (vec){0};
    vec s0_1 = (vec){0};
    vec s1_0 = (vec){0};
    vec s1_1 = (vec){0};
    for (int k = 0; k < 3; ++k) {
        {
            const long a0_x = a0_at + 1L * k;
            const long a1_x = a1_at + 16L * k;
            const float a0_0 = A[a0_x + 0];
            const vec a1_0 = *(const any_float *)(B_packed + a1_x + 0);
            HOLD(a1_0);
            s0_0 = s0_0 + a0_0 * a1_0;
            const vec a1_8 = *(const any_float *)(B_packed + a1_x + 8);
            HOLD(a1_8);
            s0_1 = s0_1 + a0_0 * a1_8;
            const float a0_3 = A[a0_x + 3];
            s1_0 = s1_0 + a0_3 * a1_0;
            s1_1 = s1_1 + a0_3 * a1_8;
        }
    }
    *(any_float *)(C + o_at + 0) = s0_0;
    *(any_float *)(C + o_at + 8) = s0_1;
    *(any_float *)(C + o_at + 20) = s1_0;
    *(any_float *)(C + o_at + 28) = s1_1;
}

static WIDE void gemm_tile1(const float *restrict A, const float *restrict B_packed, float *restrict C, const long a0_at, const long a1_at, const long o_at)
{
    vec_4 s0_0 = (vec_4){0};
    vec_4 s1_0 = (vec_4){0};
    for (int k = 0; k < 3; ++k) {
        {
            const long a0_x = a0_at + 1L * k;
            const long a1_x = a1_at + 16L * k;
            const float a0_0 = A[a0_x + 0];
            const vec_4 a1_0_of4 = *(const any_float_4 *)(B_packed + a1_x + 0);
            HOLD(a1_0_of4);
            s0_0 = s0_0 + a0_0 * a1_0_of4;
            const float a0_3 = A[a0_x + 3];
            s1_0 = s1_0 + a0_3 * a1_0_of4;
        }
    }
    *(any_float_4 *)(C + o_at + 0) = s0_0;
    *(any_float_4 *)(C + o_at + 20) = s1_0;
}

static WIDE void gemm_tile2(const float *restrict A, const float *restrict B_packed, float *restrict C, const long a0_at, const long a1_at, const long o_at)
{
    vec s0_0 = (vec){0};
    vec s0_1 = (vec){0};
    for (int k = 0; k < 3; ++k) {
        {
            const long a0_x = a0_at + 1L * k;
            const long a1_x = a1_at + 16L * k;
            const float a0_0 = A[a0_x + 0];
            const vec a1_0 = *(const any_float *)(B_packed + a1_x + 0);
            s0_0 = s0_0 + a0_0 * a1_0;
            const vec a1_8 = *(const any_float *)(B_packed + a1_x + 8);
            s0_1 = s0_1 + a0_0 * a1_8;
        }
    }
    *(any_float *)(C + o_at + 0) = s0_0;
    *(any_float *)(C + o_at + 8) = s0_1;
}

static WIDE void gemm_tile3(const float *restrict A, const float *restrict B_packed, float *restrict C, const long a0_at, const long a1_at, const long o_at)
{
    vec_4 s0_0 = (vec_4){0};
    for (int k = 0; k < 3; ++k) {
        {
            const long a0_x = a0_at + 1L * k;
            const long a1_x = a1_at + 16L * k;
            const float a0_0 = A[a0_x + 0];
            const vec_4 a1_0_of4 = *(const any_float_4 *)(B_packed + a1_x + 0);
            s0_0 = s0_0 + a0_0 * a1_0_of4;
        }
    }
    *(any_float_4 *)(C + o_at + 0) = s0_0;
}

long gemm_packed_elements(void)
{
    return 96;
}

void gemm_pack(const float *restrict B, float *restrict B_packed)
{
    for (int panel = 0; panel < 2; ++panel) {
        const int valid = MIN(16, 20 - panel * 16);
        if (valid < 16) {
            memset(&B_packed[(long)panel * 48], 0, 48L * sizeof(float));
        }
        for (int k = 0; k < 3; ++k) {
            if (valid == 16) {
                {
                    const int lane = 0;
                    memcpy(&B_packed[(long)k * 16 + (long)panel * 48 + lane], &B[(long)k * 20 + (long)(panel * 16 + lane)], 16 * sizeof(float));
                }
            } else {
                for (int lane = 0; lane < valid; ++lane) {
                    B_packed[(long)k * 16 + (long)panel * 48 + lane] = B[(long)k * 20 + (long)(panel * 16 + lane)];
                }
            }
        }
    }
}

void gemm_with_packed(const float *restrict A, const float *restrict B_packed, float *restrict C)
{
    for (int n_0 = 0; n_0 < 20; n_0 += 16) {
        for (int m_1 = 0; m_1 < 5; m_1 += 2) {
            const long a0_at = 3L * m_1;
            const long a1_at = 48L * (n_0 / 16);
            const long o_at = 20L * m_1 + 1L * n_0;
            if (m_1 < 3) {
                if (n_0 < 1) {
                    gemm_tile0(A, B_packed, C, a0_at, a1_at, o_at);
                } else {
                    gemm_tile1(A, B_packed, C, a0_at, a1_at, o_at);
                }
            } else {
                if (n_0 < 1) {
                    gemm_tile2(A, B_packed, C, a0_at, a1_at, o_at);
                } else {
                    gemm_tile3(A, B_packed, C, a0_at, a1_at, o_at);
                }
            }
        }
    }
}

void gemm(const float *restrict A, const float *restrict B, float *restrict C)
{
    for (int n_0 = 0; n_0 < 20; n_0 += 16) {
        __attribute__((aligned(64))) float B_packed[48];
        for (int panel = 0; panel < 1; ++panel) {
            const int valid = MIN(16, MIN(16, 20 - n_0) - panel * 16);
            if (valid < 16) {
                memset(&B_packed[(long)panel * 48], 0, 48L * sizeof(float));
            }
            for (int k = 0; k < 3; ++k) {
                if (valid == 16) {
                    {
                        const int lane = 0;
                        memcpy(&B_packed[(long)k * 16 + (long)panel * 48 + lane], &B[(long)k * 20 + (long)(n_0 + (panel * 16 + lane))], 16 * sizeof(float));
                    }
                } else {
                    for (int lane = 0; lane < valid; ++lane) {
                        B_packed[(long)k * 16 + (long)panel * 48 + lane] = B[(long)k * 20 + (long)(n_0 + (panel * 16 + lane))];
                    }
                }
            }
        }
        for (int m_1 = 0; m_1 < 5; m_1 += 2) {
            const long a0_at = 3L * m_1;
            const long a1_at = 0;
            const long o_at = 20L * m_1 + 1L * n_0;
            if (m_1 < 3) {
                if (n_0 < 1) {
                    gemm_tile0(A, B_packed, C, a0_at, a1_at, o_at);
                } else {
                    gemm_tile1(A, B_packed, C, a0_at, a1_at, o_at);
                }
            } else {
                if (n_0 < 1) {
                    gemm_tile2(A, B_packed, C, a0_at, a1_at, o_at);
                } else {
                    gemm_tile3(A, B_packed, C, a0_at, a1_at, o_at);
                }
            }
        }
    }
}
