void kernel(const unsigned char (*restrict x)[H][W], const float (*restrict twist)[4], const float (*restrict cube)[K][K][3],
            unsigned char (*restrict y)[H][W]) {
#pragma omp parallel for
  for (int i = 0; i < H; i++)
    for (int j = 0; j < W; j++) {
      float r = x[0][i][j] / 255.0f, g = x[1][i][j] / 255.0f, b = x[2][i][j] / 255.0f, part[3];
      int cell[3];
      for (int c = 0; c < 3; c++) {
        float v = twist[c][0] * r + twist[c][1] * g + twist[c][2] * b + twist[c][3];
        v = (v < 0 ? 0 : v > 1 ? 1 : v) * (K - 1);
        cell[c] = v < K - 2 ? (int)v : K - 2, part[c] = v - cell[c];
      }
      const float(*p)[K][3] = &cube[cell[0]][cell[1]], (*q)[K][3] = &cube[cell[0] + 1][cell[1]];
      for (int c = 0; c < 3; c++) {
        int a = cell[2], z = a + 1;
        float p0 = p[0][a][c] + part[2] * (p[0][z][c] - p[0][a][c]), p1 = p[1][a][c] + part[2] * (p[1][z][c] - p[1][a][c]);
        float q0 = q[0][a][c] + part[2] * (q[0][z][c] - q[0][a][c]), q1 = q[1][a][c] + part[2] * (q[1][z][c] - q[1][a][c]);
        float u = p0 + part[1] * (p1 - p0), v = q0 + part[1] * (q1 - q0);
        y[c][i][j] = u + part[0] * (v - u) + 0.5f;
      }
    }
}
