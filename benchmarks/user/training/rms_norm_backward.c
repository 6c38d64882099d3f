#include <math.h>
#include "../bf16.h"

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
