// Calls of a kernel in C, each timed: for those so short that a call from Python costs something.
#include <time.h>

typedef void kernel_function(void *, void *, void *, void *, void *, void *, void *, void *);
extern kernel_function kernel;

void bench(void **p, int calls, double *seconds) {
  struct timespec a, b;
  for (int r = 0; r < calls; r++) {
    clock_gettime(CLOCK_MONOTONIC, &a);
    kernel(p[0], p[1], p[2], p[3], p[4], p[5], p[6], p[7]);
    clock_gettime(CLOCK_MONOTONIC, &b);
    seconds[r] = (b.tv_sec - a.tv_sec) + 1e-9 * (b.tv_nsec - a.tv_nsec);
  }
}
