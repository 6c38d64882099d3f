void kernel(const float (*restrict x)[D], const float (*restrict w)[D], const float *restrict eps, const int *restrict source,
            const int *restrict target, float (*restrict y)[D]) {
  for (int j = 0; j < N; j++)
    for (int k = 0; k < D; k++) y[j][k] = (1 + *eps) * x[j][k];
  for (int i = 0; i < E; i++)
    for (int k = 0; k < D; k++) y[target[i]][k] += x[source[i]][k] + w[i][k] > 0 ? x[source[i]][k] + w[i][k] : 0;
}
