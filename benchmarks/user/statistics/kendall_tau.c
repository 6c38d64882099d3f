void kernel(const float *restrict x, const float *restrict y, float *restrict tau) {
  int score = 0;
#pragma omp parallel for reduction(+ : score)
  for (int i = 0; i < N; i++)
    for (int j = i + 1; j < N; j++) {
      float both = (x[i] - x[j]) * (y[i] - y[j]);
      score += (both > 0) - (both < 0);
    }
  tau[0] = score * (2.0f / ((float)N * (N - 1)));
}
