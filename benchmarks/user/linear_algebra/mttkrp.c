void kernel(const float (*restrict x)[J][K], const float (*restrict v)[R], const float (*restrict w)[R],
            float (*restrict y)[R]) {
#pragma omp parallel for
  for (int p = 0; p < I; p++) {
    float all[R] = {0};
    for (int q = 0; q < J; q++) {
      float row[R] = {0};
      for (int s = 0; s < K; s++)
        for (int e = 0; e < R; e++) row[e] += x[p][q][s] * w[s][e];
      for (int e = 0; e < R; e++) all[e] += row[e] * v[q][e];
    }
    for (int e = 0; e < R; e++) y[p][e] = all[e];
  }
}
