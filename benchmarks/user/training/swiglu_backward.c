#include <math.h>
#include "../bf16.h"

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
