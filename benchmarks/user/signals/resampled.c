void kernel(const float (*restrict x)[N], const int *restrict at, const float *restrict off, float (*restrict y)[M]) {
#pragma omp parallel for
  for (int i = 0; i < B; i++)
    for (int j = 0; j < M; j++) {
      const float *p = x[i] + at[j] - 1;
      float t = off[j], c1 = 0.5f * (p[2] - p[0]), c2 = p[0] - 2.5f * p[1] + 2 * p[2] - 0.5f * p[3];
      y[i][j] = p[1] + t * (c1 + t * (c2 + t * (1.5f * (p[1] - p[2]) + 0.5f * (p[3] - p[0]))));
    }
}
