#include <math.h>
void kernel(const float (*restrict a)[M], const float (*restrict b)[N], float *restrict y) {
  float far = 0;
#pragma omp parallel for reduction(max : far)
  for (int i = 0; i < M; i++) {
    float near = INFINITY;
    for (int j = 0; j < N; j++) {
      float p = a[0][i] - b[0][j], q = a[1][i] - b[1][j], r = a[2][i] - b[2][j], d = p * p + q * q + r * r;
      near = d < near ? d : near;
    }
    far = near > far ? near : far;
  }
  y[0] = sqrtf(far);
}
