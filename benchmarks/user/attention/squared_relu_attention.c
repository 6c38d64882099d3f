#include <math.h>
void kernel(const float (*restrict q)[H][D], const float (*restrict k)[H][D], const float (*restrict v)[H][D],
            float (*restrict y)[H][D]) {
#pragma omp parallel for
  for (int i = 0; i < S; i++)
    for (int a = 0; a < H; a++) {
      float mix[D] = {0};
      for (int j = 0; j <= i; j++) {
        float dot = 0;
        for (int e = 0; e < D; e++) dot += q[i][a][e] * k[j][a][e];
        dot = dot > 0 ? dot * dot * (1.0f / D) : 0;
        for (int e = 0; e < D; e++) mix[e] += dot * v[j][a][e];
      }
      for (int e = 0; e < D; e++) y[i][a][e] = mix[e] / (i + 1);
    }
}
