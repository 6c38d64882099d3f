void kernel(const float (*restrict x)[K], const float (*restrict w)[K / 2],
            const unsigned char (*restrict place)[K / 2], float (*restrict y)[N]) {
#pragma omp parallel for
  for (int i = 0; i < M; i++)
    for (int j = 0; j < N; j++) {
      float acc = 0;
      for (int l = 0; l < K / 2; l++) acc += w[j][l] * x[i][4 * (l / 2) + place[j][l]];
      y[i][j] = acc;
    }
}
