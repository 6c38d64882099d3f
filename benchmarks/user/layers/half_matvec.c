void kernel(const _Float16 (*restrict w)[N], const float *restrict x, const _Float16 *restrict b, _Float16 *restrict y) {
#pragma omp parallel for
  for (int i = 0; i < M; i++) {
    float acc = 0;
    for (int j = 0; j < N; j++) acc += (float)w[i][j] * x[j];
    acc = acc * 0.05f + (float)b[i];
    y[i] = acc > 0 ? acc : 0;
  }
}
