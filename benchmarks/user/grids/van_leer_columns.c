static float slope(float a, float b, float c) {
  float m = b - a, p = c - b, both = m * p;
  return both > 0 ? 2 * both / (m + p) : 0;
}
static void fluxes(const float (*restrict q)[W], const float *restrict c, int i, float *restrict f) {
  const float *a = q[(i + H - 2) % H], *b = q[(i + H - 1) % H], *d = q[i % H], *e = q[(i + 1) % H];
  for (int j = 0; j < W; j++) {
    float u = c[j] * (b[j] + 0.5f * (1 - c[j]) * slope(a[j], b[j], d[j]));
    float v = c[j] * (d[j] - 0.5f * (1 + c[j]) * slope(b[j], d[j], e[j]));
    f[j] = c[j] > 0 ? u : v;
  }
}
void kernel(const float (*restrict q)[H][W], const float (*restrict c)[W], float (*restrict y)[H][W]) {
#pragma omp parallel for
  for (int a = 0; a < L; a++) {
    float f[2][W];
    fluxes(q[a], c[0], 0, f[0]);
    for (int i = 0; i < H; i++) {
      float *lo = f[i & 1], *hi = f[~i & 1];
      fluxes(q[a], c[(i + 1) % H], i + 1, hi);
      for (int j = 0; j < W; j++) y[a][i][j] = q[a][i][j] - (hi[j] - lo[j]);
    }
  }
}
