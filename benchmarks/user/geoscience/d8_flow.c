static const int DY[8] = {0, 1, 1, 1, 0, -1, -1, -1}, DX[8] = {1, 1, 0, -1, -1, -1, 0, 1};
void kernel(const float (*restrict z)[W], unsigned char (*restrict way)[W], unsigned char (*restrict donors)[W]) {
#pragma omp parallel for
  for (int i = 0; i < H; i++)
    for (int j = 0; j < W; j++) {
      float steepest = 0;
      way[i][j] = 0;
      for (int k = 0; k < 8; k++) {
        int p = i + DY[k], q = j + DX[k];
        if (p < 0 || p >= H || q < 0 || q >= W) continue;
        float drop = (z[i][j] - z[p][q]) * (k & 1 ? 0.70710678f : 1);
        if (drop > steepest) steepest = drop, way[i][j] = 1 << k;
      }
    }
#pragma omp parallel for
  for (int i = 0; i < H; i++)
    for (int j = 0; j < W; j++) {
      donors[i][j] = 0;
      for (int k = 0; k < 8; k++) {
        int p = i + DY[k], q = j + DX[k];
        if (p >= 0 && p < H && q >= 0 && q < W) donors[i][j] += way[p][q] == 1 << (k + 4) % 8;
      }
    }
}
