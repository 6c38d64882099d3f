void kernel(const unsigned short (*restrict x)[W], unsigned char (*restrict y)[W]) {
#pragma omp parallel for
  for (int i = 0; i < H; i++)
    for (int j = 0; j < W; j++) {
      unsigned short most = 0;
      for (int p = -1; p < 2; p++)
        for (int q = -1; q < 2; q++)
          if ((p || q) && i + p >= 0 && i + p < H && j + q >= 0 && j + q < W)
            most = x[i + p][j + q] > most ? x[i + p][j + q] : most;
      y[i][j] = x[i][j] > most;
    }
}
