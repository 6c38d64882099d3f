void kernel(const float (*restrict x)[D], const float *restrict w, const signed char *restrict label, float *restrict new) {
  float grad[D] = {0};
#pragma omp parallel for reduction(+ : grad[:D])
  for (int i = 0; i < N; i++) {
    float dot = 0, sign = 2 * label[i] - 1;
    for (int j = 0; j < D; j++) dot += x[i][j] * w[j];
    if (sign * dot < 1)
      for (int j = 0; j < D; j++) grad[j] += sign * x[i][j];
  }
  for (int j = 0; j < D; j++) new[j] = w[j] * 0.999f + 0.1f / N * grad[j];
}
