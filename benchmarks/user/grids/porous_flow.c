static const int way[19][3] = {{0, 0, 0}, {1, 0, 0}, {-1, 0, 0}, {0, 1, 0}, {0, -1, 0}, {0, 0, 1}, {0, 0, -1}, {1, 1, 0}, {-1, -1, 0},
  {1, -1, 0}, {-1, 1, 0}, {1, 0, 1}, {-1, 0, -1}, {1, 0, -1}, {-1, 0, 1}, {0, 1, 1}, {0, -1, -1}, {0, 1, -1}, {0, -1, 1}};
typedef unsigned char u8;
#define APART __attribute__((noinline)) static
APART void pull(const float *restrict from, const float *restrict back, const u8 *restrict wall, const int *e,
                float *restrict g, float *restrict rho, float *restrict a, float *restrict b, float *restrict c) {
  float e0 = e[0], e1 = e[1], e2 = e[2];
  for (int k = 0; k < W; k++) {
    float v = wall[k] > 204 ? back[k] : from[k];
    g[k] = v, rho[k] += v, a[k] += e0 * v, b[k] += e1 * v, c[k] += e2 * v;
  }
}
APART void collide(const float *restrict f, const float *restrict o, const u8 *restrict still, const float *restrict g,
                   const float *restrict h, const float *restrict rho, const float *restrict rest, const float *restrict a,
                   const float *restrict b, const float *restrict c, float weight, const int *e, float *restrict p, float *restrict q) {
  float e0 = e[0], e1 = e[1], e2 = e[2];
  for (int k = 0; k < W; k++) {
    float along = e0 * a[k] + e1 * b[k] + e2 * c[k];
    float even = 1.2f * ((g[k] + h[k]) / 2 - weight * rho[k] * (rest[k] + 4.5f * along * along));
    float odd = 0.9f * ((g[k] - h[k]) / 2 - 3 * weight * rho[k] * along) - weight * 0.003f * e2;
    p[k] = still[k] > 204 ? f[k] : g[k] - even - odd;
    q[k] = still[k] > 204 ? o[k] : h[k] - even + odd;
  }
}
void kernel(const float (*restrict f)[D + 2][H + 2][W + 2], const u8 (*restrict scan)[H + 2][W + 2], float (*restrict y)[D][H][W]) {
#pragma omp parallel for
  for (int i = 0; i < D; i++)
    for (int j = 0; j < H; j++) {
      float g[19][W], rho[W], a[W], b[W], c[W], rest[W];
      const u8 *still = &scan[i + 1][j + 1][1];
      for (int k = 0; k < W; k++) rho[k] = a[k] = b[k] = c[k] = 0;
      for (int m = 0; m < 19; m++) {
        int u = i + 1 - way[m][0], v = j + 1 - way[m][1], w = 1 - way[m][2], other = m == 0 ? 0 : m % 2 ? m + 1 : m - 1;
        pull(&f[m][u][v][w], &f[other][i + 1][j + 1][1], &scan[u][v][w], way[m], g[m], rho, a, b, c);
      }
      for (int k = 0; k < W; k++) {
        float over = 1 / rho[k], own = f[0][i + 1][j + 1][k + 1];
        a[k] *= over, b[k] *= over, c[k] *= over;
        rest[k] = 1 - 1.5f * (a[k] * a[k] + b[k] * b[k] + c[k] * c[k]);
        y[0][i][j][k] = still[k] > 204 ? own : own - 1.2f * (own - rho[k] * rest[k] / 3);
      }
      for (int m = 1; m < 19; m += 2)
        collide(&f[m][i + 1][j + 1][1], &f[m + 1][i + 1][j + 1][1], still, g[m], g[m + 1], rho, rest, a, b, c,
                m < 7 ? 1.0f / 18 : 1.0f / 36, way[m], y[m][i][j], y[m + 1][i][j]);
    }
}
