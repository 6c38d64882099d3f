void kernel(const unsigned char *restrict a, const unsigned char *restrict b, int (*restrict y)[V]) {
  for (int p = 0; p < V; p++)
    for (int q = 0; q < V; q++) y[p][q] = 0;
#pragma omp parallel for reduction(+ : y[:V][:V])
  for (int i = 0; i < N; i++) y[a[i]][b[i]]++;
}
