void kernel(const float (*restrict x)[H][W], const float (*restrict ys)[Q], const float (*restrict xs)[Q],
            float (*restrict y)[P][Q]) {
#pragma omp parallel for
  for (int l = 0; l < C; l++)
    for (int i = 0; i < P; i++)
      for (int j = 0; j < Q; j++) {
        int a = ys[i][j], b = xs[i][j];
        a = a < 0 ? 0 : a > H - 2 ? H - 2 : a;
        b = b < 0 ? 0 : b > W - 2 ? W - 2 : b;
        float down = ys[i][j] - a, right = xs[i][j] - b;
        float top = x[l][a][b] * (1 - right) + x[l][a][b + 1] * right;
        float bottom = x[l][a + 1][b] * (1 - right) + x[l][a + 1][b + 1] * right;
        y[l][i][j] = top * (1 - down) + bottom * down;
      }
}
