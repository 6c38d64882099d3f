static float at(const float (*u)[W], int i, int j) { return i < 0 || i >= H || j < 0 || j >= W ? 0 : u[i][j]; }
static float step(float far, float near, float u, float before, float speed) {
  return 2 * u - before + speed * (near * (4.0f / 3) - far * (1.0f / 12) - 5 * u);
}
void kernel(const float (*restrict u)[W], const float (*restrict before)[W], const float (*restrict speed)[W],
            float (*restrict y)[W]) {
#pragma omp parallel for
  for (int i = 0; i < H; i++) {
    int inside = i >= 2 && i < H - 2;
    if (inside)
      for (int j = 2; j < W - 2; j++)
        y[i][j] = step(u[i - 2][j] + u[i + 2][j] + u[i][j - 2] + u[i][j + 2],
                       u[i - 1][j] + u[i + 1][j] + u[i][j - 1] + u[i][j + 1], u[i][j], before[i][j], speed[i][j]);
    for (int j = 0; j < W; j += inside && j == 1 ? W - 3 : 1)
      y[i][j] = step(at(u, i - 2, j) + at(u, i + 2, j) + at(u, i, j - 2) + at(u, i, j + 2),
                     at(u, i - 1, j) + at(u, i + 1, j) + at(u, i, j - 1) + at(u, i, j + 1),
                     u[i][j], before[i][j], speed[i][j]);
  }
}
