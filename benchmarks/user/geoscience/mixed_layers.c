#include <math.h>
static inline double density(double t, double s) {
  return -0.157406 + t * (6.793952e-2 + t * (-9.09529e-3 + t * (1.001685e-4 + t * (-1.120083e-6 + t * 6.536332e-9)))) +
         s * (0.824493 + t * (-4.0899e-3 + t * (7.6438e-5 + t * (-8.2467e-7 + t * 5.3875e-9)))) +
         s * sqrt(s) * (-5.72466e-3 + t * (1.0227e-4 - t * 1.6546e-6)) + s * s * 4.8314e-4;
}
void kernel(const double (*restrict temp)[H][W], const double (*restrict salt)[H][W], const double *restrict thick,
            const unsigned char (*restrict wet)[W], int (*restrict levels)[W], double (*restrict heat)[W], double (*restrict mixed)[W]) {
  double depth[L];
  for (int k = 0; k < L; k++) depth[k] = thick[k] + (k ? depth[k - 1] : 0);
#pragma omp parallel for
  for (int y = 0; y < H; y++)
    for (int x = 0; x < W; x++) {
      int k = 0, many = wet[y][x];
      double limit = density(temp[0][y][x], salt[0][y][x]) + 0.03, above = 0, here = 0, warmth = 0;
      for (; k < many; k++) {
        above = here, here = density(temp[k][y][x], salt[k][y][x]);
        if (here > limit) break;
        warmth += temp[k][y][x] * thick[k];
      }
      levels[y][x] = k, heat[y][x] = warmth;
      if (k < many) mixed[y][x] = depth[k - 1] + thick[k] * (limit - above) / (here - above);
      else mixed[y][x] = many ? depth[many - 1] : 0;
    }
}
