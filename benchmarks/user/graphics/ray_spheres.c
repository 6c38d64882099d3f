#include <math.h>
void kernel(const float (*restrict ray)[3], const float (*restrict s)[4], float *restrict y) {
  float X[K], Y[K], Z[K], cc[K];
  for (int j = 0; j < K; j++) {
    X[j] = s[j][0], Y[j] = s[j][1], Z[j] = s[j][2];
    cc[j] = X[j] * X[j] + Y[j] * Y[j] + Z[j] * Z[j] - s[j][3] * s[j][3] * 0.05f;
  }
#pragma omp parallel for simd
  for (int i = 0; i < M; i++) {
    float a = ray[i][0], b = ray[i][1], c = ray[i][2], over = 1 / sqrtf(a * a + b * b + c * c), first = 1e30f;
    a *= over, b *= over, c *= over;
    for (int j = 0; j < K; j++) {
      float along = a * X[j] + b * Y[j] + c * Z[j], det = along * along - cc[j];
      float t = along - sqrtf(det > 0 ? det : 0);
      t = det > 0 && t > 0 ? t : 1e30f;
      first = t < first ? t : first;
    }
    y[i] = first;
  }
}
