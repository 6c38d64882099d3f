void kernel(const float (*restrict x)[W], float (*restrict y)[W]) {
  for (int j = 0; j < W; j++) y[0][j] = x[0][j];
  for (int i = 1; i < H; i++)
#pragma omp simd
    for (int j = 0; j < W; j++) y[i][j] = y[i - 1][j] + x[i][j];
}
