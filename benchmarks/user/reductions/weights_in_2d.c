void kernel(const int *restrict a, const int *restrict b, const float *restrict weight, float (*restrict y)[V]) {
  for (int i = 0; i < V; i++)
    for (int j = 0; j < V; j++) y[i][j] = 0;
#pragma omp parallel for reduction(+ : y[:V][:V])
  for (int i = 0; i < N; i++) y[a[i]][b[i]] += weight[i];
}
