void kernel(const float (*restrict x)[W], float (*restrict y)[W]) {
#pragma omp parallel for
  for (int i = 0; i < H; i++) {
    const float *c = x[i], *u = x[i > 0 ? i - 1 : 0], *d = x[i < H - 1 ? i + 1 : H - 1];
    float *o = y[i];
    o[0] = 0.5f * c[0] + 0.125f * (u[0] + d[0] + c[0] + c[1]);
    for (int j = 1; j < W - 1; j++) o[j] = 0.5f * c[j] + 0.125f * (u[j] + d[j] + c[j - 1] + c[j + 1]);
    o[W - 1] = 0.5f * c[W - 1] + 0.125f * (u[W - 1] + d[W - 1] + c[W - 2] + c[W - 1]);
  }
}
