#include <math.h>
static int row(int a, int p) { return (7 * a + p / 7 + 3) % (7 * R); }
static int col(int b, int p) { return (7 * b + p % 7 + 3) % (7 * C); }
void kernel(const float (*restrict qkv)[7 * C][3][H][D], const float (*restrict bias)[H], float (*restrict y)[7 * C][H][D]) {
#pragma omp parallel for collapse(3)
  for (int a = 0; a < R; a++)
    for (int b = 0; b < C; b++)
      for (int g = 0; g < H; g++)
        for (int p = 0; p < 49; p++) {
          const float *q = qkv[row(a, p)][col(b, p)][0][g];
          float score[49], top = -INFINITY, total = 0, mix[D] = {0};
          for (int k = 0; k < 49; k++) {
            const float *key = qkv[row(a, k)][col(b, k)][1][g];
            float dot = 0;
            for (int e = 0; e < D; e++) dot += q[e] * key[e];
            int torn = (a == R - 1 && (p / 7 < 4) != (k / 7 < 4)) || (b == C - 1 && (p % 7 < 4) != (k % 7 < 4));
            score[k] = torn ? -1e30f : dot / sqrtf(D) + bias[13 * (p / 7 - k / 7 + 6) + p % 7 - k % 7 + 6][g];
            top = score[k] > top ? score[k] : top;
          }
          for (int k = 0; k < 49; k++) total += score[k] = expf(score[k] - top);
          for (int k = 0; k < 49; k++) {
            const float *v = qkv[row(a, k)][col(b, k)][2][g];
            for (int e = 0; e < D; e++) mix[e] += score[k] * v[e];
          }
          for (int e = 0; e < D; e++) y[row(a, p)][col(b, p)][g][e] = mix[e] / total;
        }
}
