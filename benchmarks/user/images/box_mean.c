void kernel(const float (*restrict x)[W + K - 1], float (*restrict y)[W]) {
#pragma omp parallel for
  for (int i = 0; i < H; i++)
    for (int j = 0; j < W; j++) {
      float total = 0;
      for (int p = 0; p < K; p++)
        for (int q = 0; q < K; q++) total += x[i + p][j + q];
      y[i][j] = total / (K * K);
    }
}
