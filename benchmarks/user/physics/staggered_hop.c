typedef const float (*site)[X][Y][Z][3][2];
typedef const float (*links)[X][Y][Z][4][3][3][2];
static void hop(links u, site v, int t, int x, int y, int z, float (*restrict out)[2]) {
  int eta[4] = {1, t & 1 ? -1 : 1, (t + x) & 1 ? -1 : 1, (t + x + y) & 1 ? -1 : 1};
  float sum[3][2] = {0};
  for (int d = 0; d < 4; d++) {
    int e[4] = {d == 0, d == 1, d == 2, d == 3};
    int ta = (t + e[0]) % T, xa = (x + e[1]) % X, ya = (y + e[2]) % Y, za = (z + e[3]) % Z;
    int tb = (t + T - e[0]) % T, xb = (x + X - e[1]) % X, yb = (y + Y - e[2]) % Y, zb = (z + Z - e[3]) % Z;
    const float (*p)[2] = v[ta][xa][ya][za], (*q)[2] = v[tb][xb][yb][zb];
    const float (*f)[3][2] = u[t][x][y][z][d], (*g)[3][2] = u[tb][xb][yb][zb][d];
    for (int a = 0; a < 3; a++)
      for (int b = 0; b < 3; b++) {
        float re = f[a][b][0] * p[b][0] - f[a][b][1] * p[b][1] - g[b][a][0] * q[b][0] - g[b][a][1] * q[b][1];
        float im = f[a][b][0] * p[b][1] + f[a][b][1] * p[b][0] - g[b][a][0] * q[b][1] + g[b][a][1] * q[b][0];
        sum[a][0] += 0.5f * eta[d] * re;
        sum[a][1] += 0.5f * eta[d] * im;
      }
  }
  for (int a = 0; a < 3; a++) out[a][0] = sum[a][0], out[a][1] = sum[a][1];
}
void kernel(links u, site v, float (*restrict out)[X][Y][Z][3][2]) {
#pragma omp parallel for collapse(2)
  for (int t = 0; t < T; t++)
    for (int x = 0; x < X; x++)
      for (int y = 0; y < Y; y++)
        for (int z = 0; z < Z; z++) hop(u, v, t, x, y, z, out[t][x][y][z]);
}
