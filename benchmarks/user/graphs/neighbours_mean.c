void kernel(const float (*restrict x)[D], const int *restrict many, const int (*restrict at)[L], float (*restrict y)[D]) {
#pragma omp parallel for
  for (int i = 0; i < N; i++) {
    float total[D] = {0};
    for (int k = 0; k < many[i]; k++)
      for (int f = 0; f < D; f++) total[f] += x[at[i][k]][f];
    float of = many[i] > 1 ? many[i] : 1;
    for (int f = 0; f < D; f++) y[i][f] = total[f] / of;
  }
}
