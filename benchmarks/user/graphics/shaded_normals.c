#include <math.h>
static float pos(float v) { return v > 0 ? v : 0; }
void kernel(const signed char (*restrict n)[W][4], const unsigned char (*restrict colour)[W][4], const float (*restrict light)[3],
            unsigned char (*restrict out)[W][4]) {
  float a = light[0][0], b = light[0][1], c = light[0][2], d = light[1][0], e = light[1][1], f = light[1][2];
#pragma omp parallel for
  for (int i = 0; i < H; i++)
    for (int j = 0; j < W; j++) {
      float x = n[i][j][0], y = n[i][j][1], z = n[i][j][2], over = 1 / sqrtf(x * x + y * y + z * z + 1);
      float diffuse = pos((x * a + y * b + z * c) * over), half = pos((x * d + y * e + z * f) * over);
      float h2 = half * half, h4 = h2 * h2, h8 = h4 * h4, gloss = h8 * h8 * pos(n[i][j][3]);
      for (int k = 0; k < 3; k++) {
        float v = colour[i][j][k] * (0.2f + 0.8f * diffuse) + gloss;
        out[i][j][k] = (int)(v < 255 ? v : 255);
      }
      out[i][j][3] = colour[i][j][3];
    }
}
