void kernel(const unsigned short (*restrict red)[H][W], const unsigned short (*restrict nir)[H][W],
            const unsigned char (*restrict quality)[H][W], unsigned char (*restrict day)[W], short (*restrict index)[W],
            unsigned short (*restrict bands)[H][W]) {
#pragma omp parallel for
  for (int i = 0; i < H; i++)
    for (int j = 0; j < W; j++) {
      int best = -1, most = -32768;
      for (int d = 0; d < T; d++) {
        if (quality[d][i][j] & 26) continue;
        int r = red[d][i][j], n = nir[d][i][j], v = 20000 * n / (n + r) - 10000;
        if (v > most) most = v, best = d;
      }
      day[i][j] = best < 0 ? 255 : best;
      index[i][j] = most;
      bands[0][i][j] = best < 0 ? 0 : red[best][i][j];
      bands[1][i][j] = best < 0 ? 0 : nir[best][i][j];
    }
}
