/* The machine's behaviour, step by step; every word that moves is counted where it moves. Written by polymap.
   Compile: cc -std=c99 -O2 program.c -lm

   A buffer holds the cells of all instances of its level: cell = instance * slots + slot. An element is present in a
   cell whose key names the element and the instance's last change of tile (epoch). */
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MIN(a, b) ((a) < (b) ? (a) : (b))
#define MAX(a, b) ((a) > (b) ? (a) : (b))
#define KEY(epoch, element) ((uint64_t)(epoch) << 32 | ((uint32_t)(element) + 1))
#define EPOCH(key) ((uint32_t)((key) >> 32))

static unsigned long long steps;
static unsigned long long instances;
static unsigned long long reads_L0_DRAM_T0_C;
static unsigned long long writes_L0_DRAM_T0_C;
static unsigned long long fills_L0_DRAM_T0_C;
static unsigned long long drains_L0_DRAM_T0_C;
static unsigned long long reads_L0_DRAM_T1_A;
static unsigned long long writes_L0_DRAM_T1_A;
static unsigned long long fills_L0_DRAM_T1_A;
static unsigned long long drains_L0_DRAM_T1_A;
static unsigned long long reads_L0_DRAM_T2_B;
static unsigned long long writes_L0_DRAM_T2_B;
static unsigned long long fills_L0_DRAM_T2_B;
static unsigned long long drains_L0_DRAM_T2_B;
static unsigned long long reads_L1_GLB_T1_A;
static unsigned long long writes_L1_GLB_T1_A;
static unsigned long long fills_L1_GLB_T1_A;
static unsigned long long drains_L1_GLB_T1_A;
static unsigned long long reads_L2_RF_T0_C;
static unsigned long long writes_L2_RF_T0_C;
static unsigned long long fills_L2_RF_T0_C;
static unsigned long long drains_L2_RF_T0_C;
static int32_t T0_C[24];  /* in L0_DRAM */
static uint8_t T0_C_partial[24];
static int8_t T1_A[18];  /* in L0_DRAM */
static int8_t T2_B[12];  /* in L0_DRAM */
static int8_t N3_T1_A_value[12];  /* in L1_GLB: 1 instance of 12 */
static uint64_t N3_T1_A_key[12];
static uint32_t N3_T1_A_epoch[1];
static uint32_t N3_T1_A_now;
static int32_t N4_T0_C_value[8];  /* in L2_RF: 1 instance of 8 */
static uint64_t N4_T0_C_key[8];
static uint32_t N4_T0_C_epoch[1];
static uint32_t N4_T0_C_now;
static uint8_t N4_T0_C_partial[8];
static int32_t N4_T0_C_held[8];
static int32_t N4_T0_C_from[8];
static int32_t N4_T0_C_count[1];

/* L1_GLB T1_A: what is new is loaded. */
static void load_N3_T1_A(const int t0)
{
    N3_T1_A_now += 1;
    const uint32_t then = N3_T1_A_epoch[0];
    const int d0_left1 = MIN(4, 6 - t0 * 4);
    const int d0_base = t0 * 4;
    for (int d0 = d0_base; d0 < d0_base + d0_left1; ++d0) {
        for (int d2 = 0; d2 < 3; ++d2) {
            const int element = d0 * 3 + d2;
            const int slot = d0 % 4 * 3 + d2;
            const int origin = d0 * 3 + d2;
            if (N3_T1_A_key[slot] != KEY(N3_T1_A_now, element)) {
                if (N3_T1_A_key[slot] != KEY(then, element)) {
                    N3_T1_A_value[slot] = T1_A[origin];
                    ++reads_L0_DRAM_T1_A;
                    ++writes_L1_GLB_T1_A;
                    ++fills_L1_GLB_T1_A;
                }
                N3_T1_A_key[slot] = KEY(N3_T1_A_now, element);
                N3_T1_A_epoch[0] = N3_T1_A_now;
            }
        }
    }
}

/* L2_RF T0_C: what is not in the new tile leaves. */
static void leave_N4_T0_C(const int more, const int t0, const int t1)
{
    N4_T0_C_now += 1;
    const uint32_t then = N4_T0_C_epoch[0];
    if (more) {
        const int d0_left1 = MIN(4, 6 - t0 * 4);
        const int d0_base = t0 * 4;
        const int d1_base = t1 * 2;
        for (int d0 = d0_base; d0 < d0_base + d0_left1; ++d0) {
            for (int d1 = d1_base; d1 < d1_base + 2; ++d1) {
                const int element = d0 * 4 + d1;
                const int slot = d0 % 4 * 2 + d1 % 2;
                if (N4_T0_C_key[slot] == KEY(then, element)) {
                    N4_T0_C_key[slot] = KEY(N4_T0_C_now, element);
                }
            }
        }
    }
    int kept = 0;
    for (int h = 0; h < N4_T0_C_count[0]; ++h) {
        const int slot = N4_T0_C_held[h];
        const int origin = N4_T0_C_from[h];
        if (EPOCH(N4_T0_C_key[slot]) == N4_T0_C_now) {
            N4_T0_C_held[kept] = slot;
            N4_T0_C_from[kept] = origin;
            kept += 1;
        } else {
            ++reads_L2_RF_T0_C;
            ++drains_L2_RF_T0_C;
            if (T0_C_partial[origin]) {
                T0_C[origin] = T0_C[origin] + N4_T0_C_value[slot];
                ++reads_L0_DRAM_T0_C;
            } else {
                T0_C[origin] = N4_T0_C_value[slot];
                T0_C_partial[origin] = 1;
            }
            ++writes_L0_DRAM_T0_C;
        }
    }
    N4_T0_C_count[0] = kept;
    N4_T0_C_epoch[0] = N4_T0_C_now;
}

/* L2_RF T0_C: what is new enters. */
static void enter_N4_T0_C(const int t0, const int t1)
{
    const int d0_left1 = MIN(4, 6 - t0 * 4);
    const int d0_base = t0 * 4;
    const int d1_base = t1 * 2;
    for (int d0 = d0_base; d0 < d0_base + d0_left1; ++d0) {
        for (int d1 = d1_base; d1 < d1_base + 2; ++d1) {
            const int element = d0 * 4 + d1;
            const int slot = d0 % 4 * 2 + d1 % 2;
            const int origin = d0 * 4 + d1;
            if (N4_T0_C_key[slot] != KEY(N4_T0_C_now, element)) {
                if (T0_C_partial[origin]) {
                    N4_T0_C_value[slot] = T0_C[origin];
                    ++reads_L0_DRAM_T0_C;
                    ++writes_L2_RF_T0_C;
                    ++fills_L2_RF_T0_C;
                    T0_C_partial[origin] = 0;
                    N4_T0_C_partial[slot] = 1;
                } else {
                    N4_T0_C_value[slot] = 0;
                    N4_T0_C_partial[slot] = 0;
                }
                N4_T0_C_key[slot] = KEY(N4_T0_C_now, element);
                const int end = N4_T0_C_count[0];
                N4_T0_C_held[end] = slot;
                N4_T0_C_from[end] = origin;
                N4_T0_C_count[0] += 1;
            }
        }
    }
}

/* One instance of the statement per compute unit. */
static void compute0(const int t0, const int t1, const int t2, const int t3, const int t4)
{
    ++instances;
    const int a0_x0 = t0 * 4 + t3;
    const int8_t a0 = N3_T1_A_value[a0_x0 % 4 * 3 + t2];
    ++reads_L1_GLB_T1_A;
    const int a1_x1 = t1 * 2 + t4;
    const int8_t a1 = T2_B[t2 * 4 + a1_x1];
    ++reads_L0_DRAM_T2_B;
    const int32_t result = a0 * a1;
    const int target_x0 = t0 * 4 + t3;
    const int target_x1 = t1 * 2 + t4;
    const int cell = target_x0 % 4 * 2 + target_x1 % 2;
    if (N4_T0_C_partial[cell]) {
        N4_T0_C_value[cell] = N4_T0_C_value[cell] + result;
        ++reads_L2_RF_T0_C;
    } else {
        N4_T0_C_value[cell] = result;
        N4_T0_C_partial[cell] = 1;
    }
    ++writes_L2_RF_T0_C;
}

/* The clock, and the end of the run: all tiles are empty. */
static void run(void)
{
    int advanced = -1;
    for (int t0 = 0; t0 < 2; ++t0) {
        advanced = MIN(advanced, 0);
        for (int t1 = 0; t1 < 2; ++t1) {
            advanced = MIN(advanced, 1);
            for (int t2 = 0; t2 < 3; ++t2) {
                advanced = MIN(advanced, 2);
                const int d0_left1 = MIN(4, 6 - t0 * 4);
                for (int t3 = 0; t3 < d0_left1; ++t3) {
                    advanced = MIN(advanced, 3);
                    for (int t4 = 0; t4 < 2; ++t4) {
                        advanced = MIN(advanced, 4);
                        if (advanced < 2) {
                            leave_N4_T0_C(1, t0, t1);
                        }
                        if (advanced < 1) {
                            load_N3_T1_A(t0);
                        }
                        if (advanced < 2) {
                            enter_N4_T0_C(t0, t1);
                        }
                        compute0(t0, t1, t2, t3, t4);
                        ++steps;
                        advanced = INT_MAX;
                    }
                }
            }
        }
    }
    leave_N4_T0_C(0, 0, 0);
}

static void print_counts(void)
{
    printf("level tensor reads writes fills drains\n");
    printf("L0_DRAM T0_C %llu %llu %llu %llu\n", reads_L0_DRAM_T0_C, writes_L0_DRAM_T0_C, fills_L0_DRAM_T0_C, drains_L0_DRAM_T0_C);
    printf("L0_DRAM T1_A %llu %llu %llu %llu\n", reads_L0_DRAM_T1_A, writes_L0_DRAM_T1_A, fills_L0_DRAM_T1_A, drains_L0_DRAM_T1_A);
    printf("L0_DRAM T2_B %llu %llu %llu %llu\n", reads_L0_DRAM_T2_B, writes_L0_DRAM_T2_B, fills_L0_DRAM_T2_B, drains_L0_DRAM_T2_B);
    printf("L1_GLB T1_A %llu %llu %llu %llu\n", reads_L1_GLB_T1_A, writes_L1_GLB_T1_A, fills_L1_GLB_T1_A, drains_L1_GLB_T1_A);
    printf("L2_RF T0_C %llu %llu %llu %llu\n", reads_L2_RF_T0_C, writes_L2_RF_T0_C, fills_L2_RF_T0_C, drains_L2_RF_T0_C);
    printf("steps %llu instances %llu\n", steps, instances);
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
        transfer(input, T1_A, sizeof *T1_A, 18, 0);
        transfer(input, T2_B, sizeof *T2_B, 12, 0);
        fclose(input);
    } else {
        for (size_t i = 0; i < 18; ++i) {
            T1_A[i] = (int8_t)random_number(-128, 127);
        }
        for (size_t i = 0; i < 12; ++i) {
            T2_B[i] = (int8_t)random_number(-128, 127);
        }
    }
    run();
    if (argc == 3) {
        FILE *output = open_file(argv[2], "wb");
        transfer(output, T0_C, sizeof *T0_C, 24, 1);
        if (fclose(output) != 0) {
            return 3;
        }
    }
    print_counts();
    return 0;
}

