#include <math.h>
void kernel(const float (*restrict q)[S][D], const float (*restrict k)[S][D], const float (*restrict v)[S][D],
            const float *restrict slope, float (*restrict y)[S][D]) {
#pragma omp parallel for collapse(2)
  for (int a = 0; a < H; a++)
    for (int i = 0; i < S; i++) {
      float score[S], top = -INFINITY, total = 0, mix[D] = {0};
      for (int j = 0; j <= i; j++) {
        float dot = 0;
        for (int e = 0; e < D; e++) dot += q[a][i][e] * k[a][j][e];
        score[j] = dot / sqrtf(D) - slope[a] * (i - j);
        top = score[j] > top ? score[j] : top;
      }
      for (int j = 0; j <= i; j++) total += score[j] = expf(score[j] - top);
      for (int j = 0; j <= i; j++)
        for (int e = 0; e < D; e++) mix[e] += score[j] * v[a][j][e];
      for (int e = 0; e < D; e++) y[a][i][e] = mix[e] / total;
    }
}
