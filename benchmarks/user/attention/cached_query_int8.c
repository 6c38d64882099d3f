#include <math.h>
void kernel(const float (*restrict q)[D], const signed char (*restrict k)[H][D], const signed char (*restrict v)[H][D],
            const float (*restrict ks)[H], const float (*restrict vs)[H], const int *restrict length, float (*restrict y)[D]) {
#pragma omp parallel for
  for (int a = 0; a < H; a++) {
    float score[T], top = -INFINITY, total = 0, mix[D] = {0};
    int many = length[0];
    for (int j = 0; j < many; j++) {
      float dot = 0;
      for (int e = 0; e < D; e++) dot += q[a][e] * k[j][a][e];
      score[j] = dot * ks[j][a] / sqrtf(D);
      top = score[j] > top ? score[j] : top;
    }
    for (int j = 0; j < many; j++) total += score[j] = expf(score[j] - top);
    for (int j = 0; j < many; j++) {
      float s = score[j] * vs[j][a];
      for (int e = 0; e < D; e++) mix[e] += s * v[j][a][e];
    }
    for (int e = 0; e < D; e++) y[a][e] = mix[e] / total;
  }
}
