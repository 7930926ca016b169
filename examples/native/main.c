/* Calls a convolution that polymap wrote. In this folder:
 *
 *     polymap codegen conv2d K=32 C=16 H=14 W=14 R=3 S=3 padding=1 bits=32 --arch host_cpu --native \
 *         -o conv.c --header conv.h --shared conv.so
 *     cc -O3 -march=native main.c conv.c -o main && ./main
 */
#include "conv.h"

#include <stdio.h>
#include <stdlib.h>

enum { SIZE = 14, CHANNELS = 16, FILTERS = 32, TAPS = 3 };

int main(void)
{
    float *x = malloc(sizeof(float) * SIZE * SIZE * CHANNELS);           /* [N,H,W,C] */
    float *w = malloc(sizeof(float) * FILTERS * TAPS * TAPS * CHANNELS); /* [K,R,S,C] */
    float *y = malloc(sizeof(float) * SIZE * SIZE * FILTERS);            /* [N,P,Q,K] */
    if (!x || !w || !y)
        return 1;
    for (int i = 0; i < SIZE * SIZE * CHANNELS; ++i)
        x[i] = 1;
    for (int i = 0; i < FILTERS * TAPS * TAPS * CHANNELS; ++i)
        w[i] = 1;

    conv(x, w, y); /* packs the weights itself */
    printf("corner %g, edge %g, inside %g\n", y[0], y[FILTERS], y[(SIZE + 1) * FILTERS]);

    float *packed = aligned_alloc(64, (sizeof(float) * conv_packed_elements() + 63) / 64 * 64);
    if (!packed)
        return 1;
    conv_pack(w, packed); /* once for many calls */
    conv_with_packed(x, packed, y);
    printf("corner %g, edge %g, inside %g\n", y[0], y[FILTERS], y[(SIZE + 1) * FILTERS]);

    free(packed);
    free(y);
    free(w);
    free(x);
    return 0;
}
