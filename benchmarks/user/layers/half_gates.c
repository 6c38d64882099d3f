#include <math.h>
void kernel(const _Float16 (*restrict x)[2 * N], _Float16 (*restrict y)[N]) {
#pragma omp parallel for
  for (int i = 0; i < M; i++)
    for (int j = 0; j < N; j++) {
      float gate = x[i][j], up = x[i][j + N];
      y[i][j] = gate / (1 + expf(-gate)) * up;
    }
}
