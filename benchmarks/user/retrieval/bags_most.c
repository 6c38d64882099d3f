void kernel(const float (*restrict x)[D], const int *restrict many, const int (*restrict at)[L], float (*restrict y)[D]) {
#pragma omp parallel for
  for (int i = 0; i < N; i++) {
    float most[D];
    for (int f = 0; f < D; f++) most[f] = -1e30f;
    for (int k = 0; k < many[i]; k++)
      for (int f = 0; f < D; f++) most[f] = x[at[i][k]][f] > most[f] ? x[at[i][k]][f] : most[f];
    for (int f = 0; f < D; f++) y[i][f] = most[f];
  }
}
