#include <math.h>
#include <string.h>
void kernel(const float *restrict w, const int (*restrict at)[L], const float (*restrict value)[L], const signed char *restrict y,
            float *restrict error, float *restrict gradient, int *restrict times) {
  memset(gradient, 0, R * sizeof(float));
  memset(times, 0, R * sizeof(int));
  for (int i = 0; i < N; i++) {
    float dot = 0;
    for (int k = 0; k < L; k++) dot += w[at[i][k]] * value[i][k];
    float off = error[i] = 1 / (1 + expf(-dot)) - y[i];
    for (int k = 0; k < L; k++) gradient[at[i][k]] += off * value[i][k], times[at[i][k]]++;
  }
}
