#include <math.h>
void kernel(const float (*restrict z)[T], float *restrict pays) {
#pragma omp parallel for
  for (int i = 0; i < P; i++) {
    float way = 0, total = 0;
    for (int j = 0; j < T; j++) {
      way += 0.02f * z[i][j] + 0.0001f;
      total += expf(way);
    }
    float over = total * (100.0f / T) - 101;
    pays[i] = over > 0 ? over : 0;
  }
}
