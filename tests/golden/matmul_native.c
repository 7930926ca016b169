/* The nest as a program to use. Written by polymap. Compile: cc -std=c99 -O3 -march=native -fopenmp program.c -lm */
#if defined(__clang__)
#pragma clang diagnostic ignored "-Wpass-failed"
#elif defined(__GNUC__) && !defined(_OPENMP)
#pragma GCC diagnostic ignored "-Wunknown-pragmas"
#endif
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <math.h>
#define MIN(a, b) ((a) < (b) ? (a) : (b))
#define MAX(a, b) ((a) > (b) ? (a) : (b))

static float T0_C[80];
static float T1_A[50];
static float T2_B[40];

static void run(void)
{
    {
        for (int d0 = 0; d0 < 10; ++d0) {
            for (int d1 = 0; d1 < 8; ++d1) {
                T0_C[d0 * 8 + d1] = 0;
            }
        }
    }
    #pragma omp parallel for
    for (int s0 = 0; s0 < 3; ++s0) {
        const int d0_left1 = MIN(4, 10 - s0 * 4);
        for (int t1 = 0; t1 < (d0_left1 + 1) / 2; ++t1) {
            __attribute__((aligned(64))) float tile3[16];
            {
                const int d0_left1 = MIN(4, 10 - s0 * 4);
                const int d0_left2 = MIN(2, d0_left1 - t1 * 2);
                const int d0_base = s0 * 4 + t1 * 2;
                for (int d0 = d0_base; d0 < d0_base + d0_left2; ++d0) {
                    for (int d1 = 0; d1 < 8; ++d1) {
                        tile3[(d0 - (s0 * 4 + t1 * 2)) * 8 + d1] = T0_C[d0 * 8 + d1];
                    }
                }
            }
            for (int t3 = 0; t3 < 5; ++t3) {
                const int d0_left1 = MIN(4, 10 - s0 * 4);
                const int d0_left2 = MIN(2, d0_left1 - t1 * 2);
                for (int t4 = 0; t4 < d0_left2; ++t4) {
                    #pragma omp simd
                    for (int s2 = 0; s2 < 8; ++s2) {
                        const int a0_x0 = s0 * 4 + t1 * 2 + t4;
                        const float a0 = T1_A[a0_x0 * 5 + t3];
                        const float a1 = T2_B[t3 * 8 + s2];
                        tile3[t4 * 8 + s2] = tile3[t4 * 8 + s2] + a0 * a1;
                    }
                }
            }
            {
                const int d0_left1 = MIN(4, 10 - s0 * 4);
                const int d0_left2 = MIN(2, d0_left1 - t1 * 2);
                const int d0_base = s0 * 4 + t1 * 2;
                for (int d0 = d0_base; d0 < d0_base + d0_left2; ++d0) {
                    for (int d1 = 0; d1 < 8; ++d1) {
                        T0_C[d0 * 8 + d1] = tile3[(d0 - (s0 * 4 + t1 * 2)) * 8 + d1];
                    }
                }
            }
        }
    }
}

static uint64_t random_state = 1;

static double random_number(const double low, const double high)
{
    random_state = random_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return low + (double)(random_state >> 33) / 2147483648.0 * (high - low);
}

static void transfer(FILE *file, void *data, const size_t size, const size_t count, const int writes)
{
    const size_t done = writes ? fwrite(data, size, count, file) : fread(data, size, count, file);
    if (done != count) {
        fprintf(stderr, "cannot %s all of a tensor\n", writes ? "write" : "read");
        exit(3);
    }
}

static FILE *open_file(const char *path, const char *mode)
{
    FILE *file = fopen(path, mode);
    if (!file) {
        fprintf(stderr, "cannot open %s\n", path);
        exit(3);
    }
    return file;
}

/* Without arguments: runs on pseudo-random data. With two: reads the tensors that hold values at the start from the
   first file (raw elements, one tensor after the other), writes the written tensors to the second. */
int main(int argc, char **argv)
{
    if (argc == 3) {
        FILE *input = open_file(argv[1], "rb");
        transfer(input, T1_A, sizeof *T1_A, 50, 0);
        transfer(input, T2_B, sizeof *T2_B, 40, 0);
        fclose(input);
    } else {
        for (size_t i = 0; i < 50; ++i) {
            T1_A[i] = (float)random_number(-8, 8);
        }
        for (size_t i = 0; i < 40; ++i) {
            T2_B[i] = (float)random_number(-8, 8);
        }
    }
    run();
    if (argc == 3) {
        FILE *output = open_file(argv[2], "wb");
        transfer(output, T0_C, sizeof *T0_C, 80, 1);
        if (fclose(output) != 0) {
            return 3;
        }
    }
    return 0;
}

