void kernel(const signed char (*restrict road)[N], const unsigned char (*restrict dice)[N], signed char (*restrict new)[N], int *restrict flow) {
#pragma omp parallel for
  for (int i = 0; i < B; i++) {
    flow[i] = 0;
    for (int j = 0; j < N; j++) new[i][j] = -1;
    for (int j = 0; j < N; j++) {
      if (road[i][j] < 0) continue;
      int gap = 0, v = road[i][j] + 1;
      while (gap < 5 && road[i][(j + gap + 1) % N] < 0) gap++;
      v = v > 5 ? 5 : v;
      v = v > gap ? gap : v;
      if (dice[i][j] < 51 && v > 0) v--;
      new[i][(j + v) % N] = v;
      flow[i] += v;
    }
  }
}
