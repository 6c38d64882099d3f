void kernel(const int *restrict at, const float *restrict weight, float *restrict y) {
  for (int b = 0; b < V; b++) y[b] = 0;
#pragma omp parallel for reduction(+ : y[:V])
  for (int i = 0; i < N; i++) y[at[i]] += weight[i];
}
