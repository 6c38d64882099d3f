#include <math.h>
typedef float row[W];
void kernel(const row *restrict u, const row *restrict bar, const row *restrict g, const row *restrict p, const row *restrict q,
            row *restrict np, row *restrict nq, row *restrict nu, row *restrict nbar) {
#pragma omp parallel for
  for (int i = 0; i < H; i++)
    for (int j = 0; j < W; j++) {
      float a = p[i][j] + (i < H - 1 ? 0.35f * (bar[i + 1][j] - bar[i][j]) : 0);
      float b = q[i][j] + (j < W - 1 ? 0.35f * (bar[i][j + 1] - bar[i][j]) : 0), size = fmaxf(sqrtf(a * a + b * b), 1);
      np[i][j] = a / size;
      nq[i][j] = b / size;
    }
#pragma omp parallel for
  for (int i = 0; i < H; i++)
    for (int j = 0; j < W; j++) {
      float flow = np[i][j] - (i > 0 ? np[i - 1][j] : 0) + nq[i][j] - (j > 0 ? nq[i][j - 1] : 0);
      nu[i][j] = (u[i][j] + 0.35f * (flow + 8 * g[i][j])) / 3.8f;
      nbar[i][j] = 2 * nu[i][j] - u[i][j];
    }
}
