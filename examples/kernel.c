/* Smoothing in place: each sweep over `a` reads what the sweep before has written, and its own left neighbour.
   polymap check examples/kernel.c --size N=8 */
#define SWEEPS 4

void smooth(float a[N]) {
  for (int t = 0; t < SWEEPS; t++)
    for (int i = 1; i < N - 1; i++)
      a[i] = 0.25f * a[i - 1] + 0.5f * a[i] + 0.25f * a[i + 1];
}
