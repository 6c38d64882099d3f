void kernel(const int *restrict at, const float *restrict x, int *restrict count, float *restrict total) {
  for (int k = 0; k < V; k++) {
    count[k] = 0;
    total[k] = 0;
  }
#pragma omp parallel for reduction(+ : count[:V], total[:V])
  for (int i = 0; i < N; i++) {
    count[at[i]] += 1;
    total[at[i]] += x[i];
  }
}
