void kernel(const float (*restrict query)[M * D], const float (*restrict book)[256][D], const unsigned char (*restrict code)[M],
            float (*restrict y)[N], float *restrict least) {
  for (int a = 0; a < Q; a++) {
    float table[M][256], best = 3e38f;
    for (int s = 0; s < M; s++)
      for (int c = 0; c < 256; c++) {
        float sum = 0;
        for (int f = 0; f < D; f++) {
          float v = query[a][s * D + f] - book[s][c][f];
          sum += v * v;
        }
        table[s][c] = sum;
      }
#pragma omp parallel for reduction(min : best)
    for (int i = 0; i < N; i++) {
      float sum = 0;
      for (int s = 0; s < M; s++) sum += table[s][code[i][s]];
      y[a][i] = sum;
      best = sum < best ? sum : best;
    }
    least[a] = best;
  }
}
