#include <math.h>
void kernel(const float (*restrict z)[D], const int *restrict label, float *restrict loss, float *restrict mean) {
  static float u[N][D];
  float sum = 0;
  int counted = 0;
  for (int i = 0; i < N; i++) {
    float size = 1e-6f;
    for (int e = 0; e < D; e++) size += z[i][e] * z[i][e];
    for (int e = 0; e < D; e++) u[i][e] = z[i][e] / sqrtf(size);
  }
#pragma omp parallel for reduction(+ : sum, counted)
  for (int i = 0; i < N; i++) {
    float alike[N], top = -INFINITY, total = 0, near = 0;
    int many = 0;
    for (int j = 0; j < N; j++) {
      float v = 0;
      for (int e = 0; e < D; e++) v += u[i][e] * u[j][e];
      alike[j] = 5 * v;
    }
    alike[i] = -INFINITY;
    for (int j = 0; j < N; j++) top = alike[j] > top ? alike[j] : top;
    for (int j = 0; j < N; j++) total += expf(alike[j] - top);
    for (int j = 0; j < N; j++)
      if (label[i] == label[j] && i != j) near += alike[j], many++;
    loss[i] = many ? top + logf(total) - near / many : 0;
    sum += loss[i], counted += many > 0;
  }
  *mean = sum / (counted > 1 ? counted : 1);
}
