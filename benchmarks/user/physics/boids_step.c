#include <math.h>
void kernel(const float (*restrict p)[N], const float (*restrict v)[N], float (*restrict velocity)[N], float (*restrict place)[N]) {
#pragma omp parallel for
  for (int i = 0; i < N; i++) {
    float many = 0, mx = 0, my = 0, ax = 0, ay = 0, sx = 0, sy = 0;
    for (int j = 0; j < N; j++) {
      float dx = p[0][j] - p[0][i], dy = p[1][j] - p[1][i], d = dx * dx + dy * dy;
      float near = d < 150 && j != i ? 1 : 0, close = d < 9 ? 1 : 0;
      many += near, mx += near * dx, my += near * dy;
      ax += near * (v[0][j] - v[0][i]), ay += near * (v[1][j] - v[1][i]);
      sx -= close * dx, sy -= close * dy;
    }
    float over = many > 0 ? 1 / many : 0;
    float x = v[0][i] + mx * over * 0.005f + ax * over * 0.05f + sx * 0.05f;
    float y = v[1][i] + my * over * 0.005f + ay * over * 0.05f + sy * 0.05f;
    float limit = 2 / sqrtf(x * x + y * y + 1e-12f);
    limit = limit < 1 ? limit : 1;
    velocity[0][i] = x * limit, velocity[1][i] = y * limit;
    place[0][i] = p[0][i] + x * limit, place[1][i] = p[1][i] + y * limit;
  }
}
