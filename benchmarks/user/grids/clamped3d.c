static float step(float c, float around) { return c + 0.1f * (around - 6.0f * c); }
void kernel(const float (*restrict x)[H][W], float (*restrict y)[H][W]) {
#pragma omp parallel for
  for (int k = 0; k < D; k++)
    for (int i = 0; i < H; i++) {
      const float *c = x[k][i], *back = x[k > 0 ? k - 1 : 0][i], *front = x[k < D - 1 ? k + 1 : D - 1][i];
      const float *up = x[k][i > 0 ? i - 1 : 0], *down = x[k][i < H - 1 ? i + 1 : H - 1];
      float *o = y[k][i];
      o[0] = step(c[0], back[0] + front[0] + up[0] + down[0] + c[0] + c[1]);
      for (int j = 1; j < W - 1; j++) o[j] = step(c[j], back[j] + front[j] + up[j] + down[j] + c[j - 1] + c[j + 1]);
      o[W - 1] = step(c[W - 1], back[W - 1] + front[W - 1] + up[W - 1] + down[W - 1] + c[W - 2] + c[W - 1]);
    }
}
