#include <math.h>
void kernel(const float (*restrict x)[3], const float (*restrict field)[G][G][4], float (*restrict y)[4]) {
#pragma omp parallel for
  for (int i = 0; i < N; i++) {
    int a = x[i][0], b = x[i][1], d = x[i][2];
    a = a < G - 2 ? a : G - 2; b = b < G - 2 ? b : G - 2; d = d < G - 2 ? d : G - 2;
    float p = x[i][0] - a, q = x[i][1] - b, r = x[i][2] - d;
    for (int c = 0; c < 4; c++) {
      float v00 = (1 - r) * field[a][b][d][c] + r * field[a][b][d + 1][c];
      float v01 = (1 - r) * field[a][b + 1][d][c] + r * field[a][b + 1][d + 1][c];
      float v10 = (1 - r) * field[a + 1][b][d][c] + r * field[a + 1][b][d + 1][c];
      float v11 = (1 - r) * field[a + 1][b + 1][d][c] + r * field[a + 1][b + 1][d + 1][c];
      y[i][c] = (1 - p) * ((1 - q) * v00 + q * v01) + p * ((1 - q) * v10 + q * v11);
    }
  }
}
