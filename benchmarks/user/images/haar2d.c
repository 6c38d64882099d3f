void kernel(const float (*restrict x)[W], float (*restrict ll)[W / 2], float (*restrict lh)[W / 2],
            float (*restrict hl)[W / 2], float (*restrict hh)[W / 2]) {
#pragma omp parallel for
  for (int i = 0; i < H / 2; i++)
    for (int j = 0; j < W / 2; j++) {
      float a = x[2 * i][2 * j], b = x[2 * i][2 * j + 1], c = x[2 * i + 1][2 * j], d = x[2 * i + 1][2 * j + 1];
      ll[i][j] = 0.5f * (a + b + c + d);
      lh[i][j] = 0.5f * (a - b + c - d);
      hl[i][j] = 0.5f * (a + b - c - d);
      hh[i][j] = 0.5f * (a - b - c + d);
    }
}
