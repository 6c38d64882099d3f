#include <math.h>
void kernel(const float (*restrict x)[W][3], unsigned char (*restrict y)[W][3]) {
#pragma omp parallel for
  for (int i = 0; i < H; i++)
    for (int j = 0; j < W; j++)
      for (int c = 0; c < 3; c++) {
        float v = x[i][j][c] * 0.6f, film = v * (2.51f * v + 0.03f) / (v * (2.43f * v + 0.59f) + 0.14f);
        film = film < 1 ? film : 1;
        float screen = film <= 0.0031308f ? 12.92f * film : 1.055f * powf(film, 1 / 2.4f) - 0.055f;
        y[i][j][c] = screen * 255 + 0.5f;
      }
}
