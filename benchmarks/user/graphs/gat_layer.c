#include <math.h>
void kernel(const float (*restrict x)[H][D], const int *restrict many, const int (*restrict near)[L], const float (*restrict to)[D],
            const float (*restrict of)[D], float (*restrict y)[H][D]) {
  static float left[N][H], right[N][H];
#pragma omp parallel for
  for (int i = 0; i < N; i++)
    for (int a = 0; a < H; a++) {
      float p = 0, q = 0;
      for (int e = 0; e < D; e++) p += x[i][a][e] * to[a][e], q += x[i][a][e] * of[a][e];
      left[i][a] = p, right[i][a] = q;
    }
#pragma omp parallel for
  for (int i = 0; i < N; i++)
    for (int a = 0; a < H; a++) {
      float score[L], top = -INFINITY, total = 0, mix[D] = {0};
      for (int j = 0; j < many[i]; j++) {
        float v = left[i][a] + right[near[i][j]][a];
        score[j] = v > 0 ? v : 0.2f * v;
        top = score[j] > top ? score[j] : top;
      }
      for (int j = 0; j < many[i]; j++) {
        float w = expf(score[j] - top);
        total += w;
        for (int e = 0; e < D; e++) mix[e] += w * x[near[i][j]][a][e];
      }
      for (int e = 0; e < D; e++) y[i][a][e] = mix[e] > 0 ? mix[e] / total : expm1f(mix[e] / total);
    }
}
