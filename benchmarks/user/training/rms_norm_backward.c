#include <math.h>
typedef unsigned short bf16;
static float wide(bf16 v) { union { unsigned u; float f; } a = {.u = (unsigned)v << 16}; return a.f; }
static bf16 narrow(float v) {
  union { float f; unsigned u; } a = {.f = v};
  return (a.u + 0x7fff + (a.u >> 16 & 1)) >> 16;
}
void kernel(const bf16 (*restrict x)[N], const bf16 (*restrict dy)[N], const float *restrict w,
            bf16 (*restrict dx)[N], bf16 (*restrict dw)[N]) {
#pragma omp parallel for
  for (int i = 0; i < M; i++) {
    float square = 0, dot = 0;
    for (int j = 0; j < N; j++) {
      float a = wide(x[i][j]);
      square += a * a;
      dot += a * wide(dy[i][j]) * w[j];
    }
    float r = 1 / sqrtf(square / N + 1e-5f), c = r * r * dot / N;
    for (int j = 0; j < N; j++) {
      float a = wide(x[i][j]), d = wide(dy[i][j]);
      dx[i][j] = narrow(r * (d * w[j] - a * c));
      dw[i][j] = narrow(d * a * r);
    }
  }
}
