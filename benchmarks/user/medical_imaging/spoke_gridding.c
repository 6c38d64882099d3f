#include <math.h>
static void coil(const float (*restrict x)[R][2], const float (*restrict at)[R][2], const float (*restrict dense)[R],
                 const float *restrict table, float (*restrict grid)[G][2]) {
  for (int k = 0; k < G * G * 2; k++) ((float *)grid)[k] = 0;
  for (int j = 0; j < S; j++)
    for (int k = 0; k < R; k++) {
      int y = (int)floorf(at[j][k][0]) - 1, z = (int)floorf(at[j][k][1]) - 1;
      float wy[4], wz[4], re = x[j][k][0] * dense[j][k], im = x[j][k][1] * dense[j][k];
      for (int a = 0; a < 4; a++) {
        wy[a] = table[(int)(fabsf(at[j][k][0] - (y + a)) * 64 + 0.5f)];
        wz[a] = table[(int)(fabsf(at[j][k][1] - (z + a)) * 64 + 0.5f)];
      }
      for (int a = 0; a < 4; a++)
        for (int b = 0; b < 4; b++) {
          grid[y + a][z + b][0] += re * wy[a] * wz[b];
          grid[y + a][z + b][1] += im * wy[a] * wz[b];
        }
    }
}
void kernel(const float (*restrict x)[S][R][2], const float (*restrict at)[R][2], const float (*restrict dense)[R],
            const float *restrict table, float (*restrict grid)[G][G][2]) {
#pragma omp parallel for
  for (int i = 0; i < C; i++) coil(x[i], at, dense, table, grid[i]);
}
