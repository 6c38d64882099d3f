void kernel(const unsigned short (*restrict x)[H][W], float (*restrict y)[W], unsigned char (*restrict out)[W]) {
#pragma omp parallel for
  for (int i = 0; i < H; i++) {
#pragma omp simd
    for (int j = 0; j < W; j++) {
      int total = 0, square = 0, kept = 0, count = 0;
      for (int k = 0; k < K; k++) total += x[k][i][j], square += x[k][i][j] * x[k][i][j];
      int wide = 4 * (K * square - total * total);
      for (int k = 0; k < K; k++) {
        int d = K * x[k][i][j] - total, near = d * d <= wide;
        kept += near ? x[k][i][j] : 0, count += near;
      }
      y[i][j] = (float)kept / count;
      out[i][j] = K - count;
    }
  }
}
