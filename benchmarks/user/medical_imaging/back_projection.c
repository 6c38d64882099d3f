static void ray(const float *restrict sino, float base, float step, float *restrict y) {
  for (int j = 0; j < W; j++) {
    float at = (j - 0.5f * (W - 1)) * step + base;
    at = at < 0 ? 0 : at > R - 1.001f ? R - 1.001f : at;
    int p = at;
    float part = at - p;
    y[j] += sino[p] * (1 - part) + sino[p + 1] * part;
  }
}
void kernel(const float (*restrict sino)[R], const float *restrict co, const float *restrict si, float (*restrict y)[W]) {
#pragma omp parallel for
  for (int i = 0; i < H; i++) {
    for (int j = 0; j < W; j++) y[i][j] = 0;
    for (int a = 0; a < A; a++) ray(sino[a], (i - 0.5f * (H - 1)) * si[a] + 0.5f * (R - 1), co[a], y[i]);
    for (int j = 0; j < W; j++) y[i][j] *= 3.14159265f / A;
  }
}
