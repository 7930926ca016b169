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
static unsigned long long reads_L0_DRAM_T0_O;
static unsigned long long writes_L0_DRAM_T0_O;
static unsigned long long fills_L0_DRAM_T0_O;
static unsigned long long drains_L0_DRAM_T0_O;
static unsigned long long reads_L0_DRAM_T1_I;
static unsigned long long writes_L0_DRAM_T1_I;
static unsigned long long fills_L0_DRAM_T1_I;
static unsigned long long drains_L0_DRAM_T1_I;
static unsigned long long reads_L0_DRAM_T2_W;
static unsigned long long writes_L0_DRAM_T2_W;
static unsigned long long fills_L0_DRAM_T2_W;
static unsigned long long drains_L0_DRAM_T2_W;
static unsigned long long reads_L1_RF_T1_I;
static unsigned long long writes_L1_RF_T1_I;
static unsigned long long fills_L1_RF_T1_I;
static unsigned long long drains_L1_RF_T1_I;
static int32_t T0_O[8];  /* in L0_DRAM */
static uint8_t T0_O_partial[8];
static int8_t T1_I[17];  /* in L0_DRAM */
static int8_t T2_W[3];  /* in L0_DRAM */
static int8_t N3_T1_I_value[18];  /* in L1_RF: 6 instances of 3 */
static uint64_t N3_T1_I_key[18];
static uint32_t N3_T1_I_epoch[6];
static uint32_t N3_T1_I_now;
static int8_t operand0_1[6];
static int32_t result0[6];
static uint8_t active0[6];
static int8_t bus1_I[17];
static int64_t mark1_I[17];
static int8_t bus2_W[3];
static int64_t mark2_W[3];
static int32_t bus0_O[8];
static int64_t mark0_O[8];
static int32_t want_from[6];
static int32_t want_at[6];
static int32_t message[6];
static int wanted;
static int length;
static int64_t stamp;

static int32_t sent_words[18];
static struct { int32_t first, length, next; uint64_t sum; } sent[3];
static struct { int32_t head; uint32_t group; } sent_by_sum[8];
static int32_t sent_count, sent_end;
static uint32_t sent_group;

static void begin_group(void)
{
    sent_count = sent_end = 0;
    ++sent_group;
}

static int same_elements(const int32_t *a, const int32_t *b, const int32_t length, int64_t *marks)
{
    if (memcmp(a, b, (size_t)length * sizeof *a) == 0) {
        return 1;
    }
    ++stamp;
    for (int32_t i = 0; i < length; ++i) {
        marks[a[i]] = stamp;
    }
    for (int32_t i = 0; i < length; ++i) {
        if (marks[b[i]] != stamp) {
            return 0;
        }
    }
    return 1;
}

/* Whether a message with exactly these elements was sent in this group; if not, it is noted as sent. */
static int already_sent(const int32_t *message, const int32_t length, int64_t *marks)
{
    uint64_t sum = (uint64_t)length;
    for (int32_t i = 0; i < length; ++i) {
        const uint64_t mixed = (uint64_t)(message[i] + 1) * UINT64_C(0x9E3779B97F4A7C15);
        sum += mixed ^ mixed >> 29;
    }
    if (length == 0) {
        return 1;
    }
    const uint64_t bucket = (sum ^ sum >> 32) & 7;
    if (sent_by_sum[bucket].group != sent_group) {
        sent_by_sum[bucket].group = sent_group;
        sent_by_sum[bucket].head = -1;
    }
    for (int32_t j = sent_by_sum[bucket].head; j >= 0; j = sent[j].next) {
        if (sent[j].sum == sum && sent[j].length == length
            && same_elements(sent_words + sent[j].first, message, length, marks)) {
            return 1;
        }
    }
    memcpy(sent_words + sent_end, message, (size_t)length * sizeof *message);
    sent[sent_count].first = sent_end;
    sent[sent_count].length = length;
    sent[sent_count].sum = sum;
    sent[sent_count].next = sent_by_sum[bucket].head;
    sent_by_sum[bucket].head = sent_count++;
    sent_end += length;
    return 0;
}


/* L1_RF T1_I: what is new is loaded. */
static void load_N3_T1_I(const int t0)
{
    N3_T1_I_now += 1;
    begin_group();
    for (int s1 = 0; s1 < 3; ++s1) {
        wanted = 0;
        for (int s2 = 0; s2 < 2; ++s2) {
            const int instance = s1 * 2 + s2;
            const uint32_t then = N3_T1_I_epoch[instance];
            const int d0_base = t0 * 4 + s2 * 2;
            for (int d0 = d0_base; d0 < d0_base + 2; ++d0) {
                const int x0 = d0 * 2 + s1;
                const int slot = x0 % 3;
                const int here = instance * 3 + slot;
                if (N3_T1_I_key[here] != KEY(N3_T1_I_now, x0)) {
                    if (N3_T1_I_key[here] != KEY(then, x0)) {
                        want_at[wanted] = here;
                        want_from[wanted] = x0;
                        wanted += 1;
                    }
                    N3_T1_I_key[here] = KEY(N3_T1_I_now, x0);
                    N3_T1_I_epoch[instance] = N3_T1_I_now;
                }
            }
        }
        length = 0;
        stamp += 1;
        for (int w = 0; w < wanted; ++w) {
            if (mark1_I[want_from[w]] != stamp) {
                mark1_I[want_from[w]] = stamp;
                message[length] = want_from[w];
                length += 1;
            }
        }
        if (!already_sent(message, length, mark1_I)) {
            for (int m = 0; m < length; ++m) {
                bus1_I[message[m]] = T1_I[message[m]];
                ++reads_L0_DRAM_T1_I;
            }
        }
        for (int w = 0; w < wanted; ++w) {
            N3_T1_I_value[want_at[w]] = bus1_I[want_from[w]];
            ++writes_L1_RF_T1_I;
            ++fills_L1_RF_T1_I;
        }
    }
}

/* An operand. */
static void read0_1(void)
{
    begin_group();
    for (int s1 = 0; s1 < 3; ++s1) {
        wanted = 0;
        for (int s2 = 0; s2 < 2; ++s2) {
            const int unit = s1 * 2 + s2;
            want_at[wanted] = unit;
            want_from[wanted] = s1;
            wanted += 1;
        }
        length = 0;
        stamp += 1;
        for (int w = 0; w < wanted; ++w) {
            if (mark2_W[want_from[w]] != stamp) {
                mark2_W[want_from[w]] = stamp;
                message[length] = want_from[w];
                length += 1;
            }
        }
        if (!already_sent(message, length, mark2_W)) {
            for (int m = 0; m < length; ++m) {
                bus2_W[message[m]] = T2_W[message[m]];
                ++reads_L0_DRAM_T2_W;
            }
        }
        for (int w = 0; w < wanted; ++w) {
            operand0_1[want_at[w]] = bus2_W[want_from[w]];
        }
    }
}

/* One instance of the statement per compute unit. */
static void compute0(const int t0, const int t3)
{
    for (int s1 = 0; s1 < 3; ++s1) {
        for (int s2 = 0; s2 < 2; ++s2) {
            const int unit = s1 * 2 + s2;
            ++instances;
            const int a0_x0 = (t0 * 4 + s2 * 2 + t3) * 2 + s1;
            const int8_t a0 = N3_T1_I_value[(s1 * 2 + s2) * 3 + a0_x0 % 3];
            ++reads_L1_RF_T1_I;
            const int8_t a1 = operand0_1[unit];
            const int32_t result = a0 * a1;
            result0[unit] = result;
            active0[unit] = 1;
        }
    }
}

/* Results are added on the way. */
static void accumulate0(const int t0, const int t3)
{
    wanted = 0;
    stamp += 1;
    for (int s1 = 0; s1 < 3; ++s1) {
        for (int s2 = 0; s2 < 2; ++s2) {
            const int unit = s1 * 2 + s2;
            if (active0[unit]) {
                const int x0 = t0 * 4 + s2 * 2 + t3;
                if (mark0_O[x0] != stamp) {
                    mark0_O[x0] = stamp;
                    want_from[wanted] = x0;
                    wanted += 1;
                    bus0_O[x0] = result0[unit];
                } else {
                    bus0_O[x0] = bus0_O[x0] + result0[unit];
                }
                active0[unit] = 0;
            }
        }
    }
    for (int w = 0; w < wanted; ++w) {
        const int cell = want_from[w];
        if (T0_O_partial[cell]) {
            T0_O[cell] = T0_O[cell] + bus0_O[want_from[w]];
            ++reads_L0_DRAM_T0_O;
        } else {
            T0_O[cell] = bus0_O[want_from[w]];
            T0_O_partial[cell] = 1;
        }
        ++writes_L0_DRAM_T0_O;
    }
}

/* The clock, and the end of the run: all tiles are empty. */
static void run(void)
{
    int advanced = -1;
    for (int t0 = 0; t0 < 2; ++t0) {
        advanced = MIN(advanced, 0);
        for (int t3 = 0; t3 < 2; ++t3) {
            advanced = MIN(advanced, 1);
            if (advanced < 1) {
                load_N3_T1_I(t0);
            }
            read0_1();
            compute0(t0, t3);
            accumulate0(t0, t3);
            ++steps;
            advanced = INT_MAX;
        }
    }
}

static void print_counts(void)
{
    printf("level tensor reads writes fills drains\n");
    printf("L0_DRAM T0_O %llu %llu %llu %llu\n", reads_L0_DRAM_T0_O, writes_L0_DRAM_T0_O, fills_L0_DRAM_T0_O, drains_L0_DRAM_T0_O);
    printf("L0_DRAM T1_I %llu %llu %llu %llu\n", reads_L0_DRAM_T1_I, writes_L0_DRAM_T1_I, fills_L0_DRAM_T1_I, drains_L0_DRAM_T1_I);
    printf("L0_DRAM T2_W %llu %llu %llu %llu\n", reads_L0_DRAM_T2_W, writes_L0_DRAM_T2_W, fills_L0_DRAM_T2_W, drains_L0_DRAM_T2_W);
    printf("L1_RF T1_I %llu %llu %llu %llu\n", reads_L1_RF_T1_I, writes_L1_RF_T1_I, fills_L1_RF_T1_I, drains_L1_RF_T1_I);
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
        transfer(input, T1_I, sizeof *T1_I, 17, 0);
        transfer(input, T2_W, sizeof *T2_W, 3, 0);
        fclose(input);
    } else {
        for (size_t i = 0; i < 17; ++i) {
            T1_I[i] = (int8_t)random_number(-128, 127);
        }
        for (size_t i = 0; i < 3; ++i) {
            T2_W[i] = (int8_t)random_number(-128, 127);
        }
    }
    run();
    if (argc == 3) {
        FILE *output = open_file(argv[2], "wb");
        transfer(output, T0_O, sizeof *T0_O, 8, 1);
        if (fclose(output) != 0) {
            return 3;
        }
    }
    print_counts();
    return 0;
}

