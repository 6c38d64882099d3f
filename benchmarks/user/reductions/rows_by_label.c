void kernel(const float (*restrict x)[D], const int *restrict at, float (*restrict y)[D]) {
  for (int s = 0; s < V; s++)
    for (int j = 0; j < D; j++) y[s][j] = 0;
#pragma omp parallel for reduction(+ : y[:V][:D])
  for (int i = 0; i < N; i++)
    for (int j = 0; j < D; j++) y[at[i]][j] += x[i][j];
}
