static void row(const float *restrict x, const float (*restrict w)[N], const float (*restrict a)[R], const float (*restrict b)[N],
                float *restrict y) {
  float down[R] = {0};
  for (int l = 0; l < K; l++)
    for (int r = 0; r < R; r++) down[r] += x[l] * a[l][r];
  for (int j = 0; j < N; j++) y[j] = 0;
  for (int r = 0; r < R; r++)
    for (int j = 0; j < N; j++) y[j] += 2 * down[r] * b[r][j];
  for (int l = 0; l < K; l++)
    for (int j = 0; j < N; j++) y[j] += x[l] * w[l][j];
}
void kernel(const float (*restrict x)[K], const float (*restrict w)[N], const float (*restrict a)[R],
            const float (*restrict b)[N], float (*restrict y)[N]) {
#pragma omp parallel for
  for (int i = 0; i < M; i++) row(x[i], w, a, b, y[i]);
}
