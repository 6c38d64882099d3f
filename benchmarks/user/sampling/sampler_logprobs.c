#include <math.h>
enum { V = 32 * W };
static int row(const float *restrict x, const unsigned char *restrict said, const unsigned *restrict may, float heat, float again,
               float once, float each, float *restrict y) {
  float most = -INFINITY, total = 0;
  int token = 0;
  for (int j = 0; j < V; j++) {
    float z = x[j];
    if (said[j]) z = (z > 0 ? z / again : z * again) - each * said[j] - once;
    y[j] = may[j / 32] >> j % 32 & 1 ? z / heat : -INFINITY;
  }
  for (int j = 0; j < V; j++)
    if (y[j] > most) most = y[j], token = j;
  for (int j = 0; j < V; j++) total += expf(fmaxf(y[j] - most, -87)); // what is forbidden adds nothing, and is quick
  float lse = most + logf(total);
  for (int j = 0; j < V; j++) y[j] -= lse;
  return token;
}
void kernel(const float (*restrict x)[V], const unsigned char (*restrict said)[V], const unsigned (*restrict may)[W],
            const float *restrict heat, const float *restrict again, const float *restrict once, const float *restrict each,
            float (*restrict y)[V], int *restrict token) {
#pragma omp parallel for
  for (int i = 0; i < B; i++) token[i] = row(x[i], said[i], may[i], heat[i], again[i], once[i], each[i], y[i]);
}
