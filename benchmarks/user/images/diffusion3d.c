static float flow(float c, float v) { float step = v - c; return step / (1.0f + step * step * 4.0f); }
void kernel(const float (*restrict x)[H][W], float (*restrict y)[H][W]) {
#pragma omp parallel for
  for (int k = 0; k < D; k++)
    for (int i = 0; i < H; i++) {
      const float *c = x[k][i], *f = x[k > 0 ? k - 1 : 0][i], *b = x[k < D - 1 ? k + 1 : D - 1][i];
      const float *u = x[k][i > 0 ? i - 1 : 0], *d = x[k][i < H - 1 ? i + 1 : H - 1];
      float *o = y[k][i];
      for (int j = 1; j < W - 1; j++)
        o[j] = c[j] + 0.14f * (flow(c[j], f[j]) + flow(c[j], b[j]) + flow(c[j], u[j]) + flow(c[j], d[j]) +
                               flow(c[j], c[j - 1]) + flow(c[j], c[j + 1]));
      o[0] = c[0] + 0.14f * (flow(c[0], f[0]) + flow(c[0], b[0]) + flow(c[0], u[0]) + flow(c[0], d[0]) + flow(c[0], c[1]));
      int e = W - 1;
      o[e] = c[e] + 0.14f * (flow(c[e], f[e]) + flow(c[e], b[e]) + flow(c[e], u[e]) + flow(c[e], d[e]) + flow(c[e], c[e - 1]));
    }
}
