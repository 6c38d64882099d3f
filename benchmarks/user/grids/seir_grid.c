#include <math.h>
typedef float row[W];
void kernel(const row *restrict s, const row *restrict e, const row *restrict l, const row *restrict r,
            const unsigned char (*restrict district)[W], row *restrict ns, row *restrict ne, row *restrict nl, row *restrict nr,
            float *restrict cases) {
  for (int k = 0; k < D; k++) cases[k] = 0;
#pragma omp parallel for reduction(+ : cases[:D])
  for (int i = 0; i < H; i++)
    for (int j = 0; j < W; j++) {
      float near = 0, people = s[i][j] + e[i][j] + l[i][j] + r[i][j] + 1;
      if (i > 0) near += l[i - 1][j];
      if (i < H - 1) near += l[i + 1][j];
      if (j > 0) near += l[i][j - 1];
      if (j < W - 1) near += l[i][j + 1];
      float new = s[i][j] * (1 - expf(-0.4f * (l[i][j] + 0.08f * near) / people));
      ns[i][j] = s[i][j] - new;
      ne[i][j] = 0.8f * e[i][j] + new;
      nl[i][j] = 0.9f * l[i][j] + 0.2f * e[i][j];
      nr[i][j] = r[i][j] + 0.1f * l[i][j];
      cases[district[i][j]] += new;
    }
}
