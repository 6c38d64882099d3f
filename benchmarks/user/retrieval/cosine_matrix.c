#include <math.h>
void kernel(const float (*restrict x)[D], float (*restrict y)[N]) {
  float r[N];
  for (int i = 0; i < N; i++) {
    float s = 0;
    for (int k = 0; k < D; k++) s += x[i][k] * x[i][k];
    r[i] = 1.0f / sqrtf(s + 1e-9f);
  }
#pragma omp parallel for
  for (int i = 0; i < N; i++)
    for (int j = 0; j < N; j++) {
      float s = 0;
      for (int k = 0; k < D; k++) s += x[i][k] * x[j][k];
      y[i][j] = s * r[i] * r[j];
    }
}
