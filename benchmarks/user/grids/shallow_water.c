#include <math.h>
static double right[H][W][3], down[H][W][3];
static inline void flux(const double *a, const double *b, double *restrict f, int along) {
  int across = 3 - along;
  double va = a[along] / a[0], vb = b[along] / b[0], sa = fabs(va) + sqrt(9.81 * a[0]), sb = fabs(vb) + sqrt(9.81 * b[0]);
  double fast = sa > sb ? sa : sb;
  f[0] = 0.5 * (a[along] + b[along] - fast * (b[0] - a[0]));
  f[along] = 0.5 * (a[along] * va + b[along] * vb + 4.905 * (a[0] * a[0] + b[0] * b[0]) - fast * (b[along] - a[along]));
  f[across] = 0.5 * (a[across] * va + b[across] * vb - fast * (b[across] - a[across]));
}
static void sides(const double (*restrict x)[3], const double (*restrict below)[3], double (*restrict r)[3], double (*restrict d)[3]) {
  for (int j = 0; j < W - 1; j++) flux(x[j], x[j + 1], r[j], 1);
  flux(x[W - 1], x[0], r[W - 1], 1);
  for (int j = 0; j < W; j++) flux(x[j], below[j], d[j], 2);
}
static void step(const double (*restrict x)[3], const double (*restrict r)[3], const double (*restrict d)[3],
                 const double (*restrict above)[3], double (*restrict y)[3]) {
  for (int c = 0; c < 3; c++) y[0][c] = x[0][c] - 0.05 * (r[0][c] - r[W - 1][c] + d[0][c] - above[0][c]);
  for (int j = 1; j < W; j++)
    for (int c = 0; c < 3; c++) y[j][c] = x[j][c] - 0.05 * (r[j][c] - r[j - 1][c] + d[j][c] - above[j][c]);
}
void kernel(const double (*restrict x)[W][3], double (*restrict y)[W][3]) {
#pragma omp parallel for
  for (int i = 0; i < H; i++) sides(x[i], x[(i + 1) % H], right[i], down[i]);
#pragma omp parallel for
  for (int i = 0; i < H; i++) step(x[i], right[i], down[i], down[(i + H - 1) % H], y[i]);
}
