static void component(const float *restrict e, const float *restrict c, const float *restrict a, const float *restrict b,
                      const float *restrict p, const float *restrict q, float *restrict y, int begin) {
  for (int k = begin; k < W; k++) y[k] = e[k] + c[k] * (a[k] - b[k] - p[k] + q[k]);
}
void kernel(const float (*restrict e)[D][H][W], const float (*restrict m)[D][H][W], const float (*restrict c)[H][W],
            float (*restrict y)[D][H][W]) {
  static const float zero[W];
#pragma omp parallel for
  for (int i = 0; i < D; i++)
    for (int j = 0; j < H; j++) {
      const float *x0 = m[0][i][j], *y0 = m[1][i][j], *z0 = m[2][i][j], *s = c[i][j];
      const float *xj = j ? m[0][i][j - 1] : zero, *zj = j ? m[2][i][j - 1] : zero;
      const float *yi = i ? m[1][i - 1][j] : zero, *zi = i ? m[2][i - 1][j] : zero;
      y[0][i][j][0] = e[0][i][j][0] + s[0] * (z0[0] - zj[0] - y0[0]);
      component(e[0][i][j], s, z0, zj, y0, y0 - 1, y[0][i][j], 1);
      y[1][i][j][0] = e[1][i][j][0] + s[0] * (x0[0] - z0[0] + zi[0]);
      component(e[1][i][j], s, x0, x0 - 1, z0, zi, y[1][i][j], 1);
      component(e[2][i][j], s, y0, yi, x0, xj, y[2][i][j], 0);
    }
}
