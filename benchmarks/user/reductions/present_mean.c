void kernel(const float (*restrict x)[D], const int (*restrict at)[L], float (*restrict y)[D]) {
#pragma omp parallel for
  for (int i = 0; i < N; i++) {
    float total[D] = {0};
    int count = 0;
    for (int k = 0; k < L; k++)
      if (at[i][k] >= 0) {
        count++;
        for (int f = 0; f < D; f++) total[f] += x[at[i][k]][f];
      }
    for (int f = 0; f < D; f++) y[i][f] = total[f] / (count > 1 ? count : 1);
  }
}
