void kernel(const float (*restrict e)[D], const int *restrict a, const int *restrict p, const int *restrict n,
            float *restrict loss, float *restrict mean, int *restrict count) {
  float total = 0;
  int many = 0;
#pragma omp parallel for reduction(+ : total, many)
  for (int i = 0; i < B; i++) {
    const float *x = e[a[i]], *y = e[p[i]], *z = e[n[i]];
    float v = 0.3f;
    for (int j = 0; j < D; j++) v += (x[j] - y[j]) * (x[j] - y[j]) - (x[j] - z[j]) * (x[j] - z[j]);
    v = v > 0 ? v : 0;
    loss[i] = v;
    total += v;
    many += v > 0;
  }
  mean[0] = total / B;
  count[0] = many;
}
