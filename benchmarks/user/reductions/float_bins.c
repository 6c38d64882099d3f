void kernel(const float *restrict x, int *restrict y) {
  for (int b = 0; b < V; b++) y[b] = 0;
#pragma omp parallel for reduction(+ : y[:V])
  for (int i = 0; i < N; i++) {
    int at = (int)(x[i] * V);
    y[at < 0 ? 0 : at >= V ? V - 1 : at]++;
  }
}
