void kernel(const float (*restrict table)[D], const int (*restrict at)[L],
            const float (*restrict weight)[L], float (*restrict y)[D]) {
#pragma omp parallel for
  for (int i = 0; i < B; i++) {
    float total[D] = {0};
    for (int k = 0; k < L; k++)
      for (int j = 0; j < D; j++) total[j] += weight[i][k] * table[at[i][k]][j];
    for (int j = 0; j < D; j++) y[i][j] = total[j];
  }
}
