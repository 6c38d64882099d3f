#include <math.h>
typedef unsigned short bf16;
static inline float wide(bf16 v) { union { unsigned u; float f; } a = {.u = (unsigned)v << 16}; return a.f; }
static inline bf16 narrow(float v) {
  union { float f; unsigned u; } a = {.f = v};
  return (a.u + 0x7fff + (a.u >> 16 & 1)) >> 16;
}

void kernel(const bf16 (*restrict gate)[N], const bf16 (*restrict up)[N], const bf16 (*restrict dy)[N],
            bf16 (*restrict dgate)[N], bf16 (*restrict dup)[N]) {
#pragma omp parallel for
  for (int i = 0; i < M; i++)
    for (int j = 0; j < N; j++) {
      float g = wide(gate[i][j]), u = wide(up[i][j]), d = wide(dy[i][j]), s = 1 / (1 + expf(-g));
      dgate[i][j] = narrow(d * u * s * (1 + g * (1 - s)));
      dup[i][j] = narrow(d * g * s);
    }
}
