void kernel(const unsigned char *restrict x, int *restrict y) {
  for (int b = 0; b < V; b++) y[b] = 0;
#pragma omp parallel for reduction(+ : y[:V])
  for (int i = 0; i < N; i++) y[x[i]]++;
}
