#include <math.h>
static const int springs[12][2] = {{0, 1}, {1, 0}, {0, -1}, {-1, 0}, {1, 1}, {1, -1}, {-1, 1}, {-1, -1}, {0, 2}, {2, 0}, {0, -2}, {-2, 0}};
static const float rest[12] = {1, 1, 1, 1, 1.41421356f, 1.41421356f, 1.41421356f, 1.41421356f, 2, 2, 2, 2};
void kernel(const float (*restrict at)[W][3], const float (*restrict old)[W][3], const unsigned char (*restrict pinned)[W],
            float (*restrict new)[W][3]) {
#pragma omp parallel for
  for (int i = 0; i < H; i++)
    for (int j = 0; j < W; j++) {
      float force[3] = {0, -9.81f, 0};
      for (int s = 0; s < 12; s++) {
        int a = i + springs[s][0], b = j + springs[s][1];
        if (a < 0 || a >= H || b < 0 || b >= W) continue;
        float x = at[a][b][0] - at[i][j][0], y = at[a][b][1] - at[i][j][1], z = at[a][b][2] - at[i][j][2];
        float pull = 30 * (1 - rest[s] / sqrtf(x * x + y * y + z * z));
        force[0] += pull * x;
        force[1] += pull * y;
        force[2] += pull * z;
      }
      for (int c = 0; c < 3; c++) {
        float p = at[i][j][c];
        new[i][j][c] = pinned[i][j] ? p : p + (p - old[i][j][c]) * 0.99f + force[c] * 2.5e-4f;
      }
    }
}
