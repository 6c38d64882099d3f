#include <math.h>
void kernel(const float (*restrict count)[T], float (*restrict y)[T]) {
  float idf[T];
  for (int j = 0; j < T; j++) idf[j] = 0;
  for (int i = 0; i < N; i++)
    for (int j = 0; j < T; j++) idf[j] += count[i][j] > 2.0f;
  for (int j = 0; j < T; j++) idf[j] = logf((N + 1.0f) / (idf[j] + 1.0f)) + 1.0f;
#pragma omp parallel for
  for (int i = 0; i < N; i++) {
    float s = 0;
    for (int j = 0; j < T; j++) {
      float v = count[i][j] * idf[j];
      s += v * v;
    }
    s = 1.0f / sqrtf(s + 1e-12f);
    for (int j = 0; j < T; j++) y[i][j] = count[i][j] * idf[j] * s;
  }
}
