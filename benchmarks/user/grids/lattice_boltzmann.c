void kernel(const float (*restrict f)[H][W], float (*restrict y)[H][W]) {
  static const int P[9] = {0, 0, 0, 1, -1, 1, 1, -1, -1}, Q[9] = {0, 1, -1, 0, 0, 1, -1, 1, -1};
  static const float weight[9] = {4 / 9.f, 1 / 9.f, 1 / 9.f, 1 / 9.f, 1 / 9.f, 1 / 36.f, 1 / 36.f, 1 / 36.f, 1 / 36.f};
#pragma omp parallel for
  for (int i = 0; i < H; i++)
    for (int j = 0; j < W; j++) {
      int up = i ? i - 1 : H - 1, dn = i < H - 1 ? i + 1 : 0, l = j ? j - 1 : W - 1, r = j < W - 1 ? j + 1 : 0;
      float c[9] = {f[0][i][j], f[1][i][l], f[2][i][r], f[3][up][j], f[4][dn][j],
                    f[5][up][l], f[6][up][r], f[7][dn][l], f[8][dn][r]};
      float rho = 0;
      for (int k = 0; k < 9; k++) rho += c[k];
      float v = (c[3] - c[4] + c[5] + c[6] - c[7] - c[8]) / rho, u = (c[1] - c[2] + c[5] - c[6] + c[7] - c[8]) / rho;
      float rest = 1 - 1.5f * (u * u + v * v);
      for (int k = 0; k < 9; k++) {
        float along = P[k] * v + Q[k] * u;
        y[k][i][j] = 0.4f * c[k] + 0.6f * weight[k] * rho * (rest + 3 * along + 4.5f * along * along);
      }
    }
}
