void kernel(const float (*restrict x)[2][LO][2], const float (*restrict u)[2][2], float (*restrict y)[2][LO][2]) {
#pragma omp parallel for
  for (int i = 0; i < HI; i++)
    for (int j = 0; j < LO; j++) {
      float pr = x[i][0][j][0], pi = x[i][0][j][1], qr = x[i][1][j][0], qi = x[i][1][j][1];
      for (int a = 0; a < 2; a++)
        if (i >> 2 & 1) {
          y[i][a][j][0] = u[a][0][0] * pr - u[a][0][1] * pi + u[a][1][0] * qr - u[a][1][1] * qi;
          y[i][a][j][1] = u[a][0][0] * pi + u[a][0][1] * pr + u[a][1][0] * qi + u[a][1][1] * qr;
        } else {
          y[i][a][j][0] = x[i][a][j][0];
          y[i][a][j][1] = x[i][a][j][1];
        }
    }
}
