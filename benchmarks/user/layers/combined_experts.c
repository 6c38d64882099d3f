typedef unsigned short half;
static float wide(half v) {
  union { unsigned u; float f; } a = {.u = (unsigned)v << 16};
  return a.f;
}
static half narrow(float v) {
  union { float f; unsigned u; } a = {.f = v};
  return (a.u + 0x7fff + (a.u >> 16 & 1)) >> 16;
}
static void token(const half *restrict rest, const half *restrict p, const half *restrict q, float a, float b, half *restrict y) {
  for (int o = 0; o < D; o++) y[o] = narrow(wide(rest[o]) + a * wide(p[o]) + b * wide(q[o]));
}
void kernel(const half (*restrict rest)[D], const half (*restrict given)[D], const int (*restrict at)[2],
            const float (*restrict share)[2], half (*restrict y)[D]) {
#pragma omp parallel for
  for (int i = 0; i < N; i++) {
    int p = at[i][0], q = at[i][1];
    float a = p < 0 ? 0 : share[i][0], b = q < 0 ? 0 : share[i][1], over = a + b > 0 ? 1 / (a + b) : 0;
    token(rest[i], given[p < 0 ? 0 : p], given[q < 0 ? 0 : q], a * over, b * over, y[i]);
  }
}
