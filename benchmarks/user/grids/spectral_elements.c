typedef double cube[P][P][P];
void kernel(const cube *restrict u, const double (*restrict d)[P], const cube (*restrict g)[6], cube *restrict w) {
#pragma omp parallel for
  for (int i = 0; i < E; i++) {
    cube fr, fs, ft;
    for (int z = 0; z < P; z++)
      for (int y = 0; y < P; y++)
        for (int x = 0; x < P; x++) {
          double r = 0, s = 0, t = 0;
          for (int l = 0; l < P; l++) r += d[x][l] * u[i][z][y][l], s += d[y][l] * u[i][z][l][x], t += d[z][l] * u[i][l][y][x];
          fr[z][y][x] = g[i][0][z][y][x] * r + g[i][1][z][y][x] * s + g[i][2][z][y][x] * t;
          fs[z][y][x] = g[i][1][z][y][x] * r + g[i][3][z][y][x] * s + g[i][4][z][y][x] * t;
          ft[z][y][x] = g[i][2][z][y][x] * r + g[i][4][z][y][x] * s + g[i][5][z][y][x] * t;
        }
    for (int z = 0; z < P; z++)
      for (int y = 0; y < P; y++)
        for (int x = 0; x < P; x++) {
          double v = 0;
          for (int l = 0; l < P; l++) v += d[l][x] * fr[z][y][l] + d[l][y] * fs[z][l][x] + d[l][z] * ft[l][y][x];
          w[i][z][y][x] = v;
        }
  }
}
