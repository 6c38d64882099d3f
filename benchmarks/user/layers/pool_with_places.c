void kernel(const float (*restrict x)[2 * H + 1][2 * W + 1], float (*restrict y)[H][W], unsigned char (*restrict place)[H][W]) {
#pragma omp parallel for
  for (int l = 0; l < C; l++)
    for (int i = 0; i < H; i++)
      for (int j = 0; j < W; j++) {
        float top = x[l][2 * i][2 * j];
        int at = 0;
        for (int p = 0; p < 3; p++)
          for (int q = 0; q < 3; q++) {
            float v = x[l][2 * i + p][2 * j + q];
            at = v > top ? 3 * p + q : at;
            top = v > top ? v : top;
          }
        y[l][i][j] = top;
        place[l][i][j] = at;
      }
}
