void kernel(const int (*restrict sold)[M], const _Bool (*restrict stock)[M], const long (*restrict key)[M], int (*restrict many)[3],
            long (*restrict best)[3]) {
#pragma omp parallel for
  for (int i = 0; i < G; i++) {
    int v[3] = {-1, -1, -1}, at[3] = {0, 0, 0};
    for (int j = 0; j < M; j++) {
      int s = sold[i][j];
      if (!stock[i][j] || s <= v[2]) continue;
      int r = s > v[0] ? 0 : s > v[1] ? 1 : 2;
      for (int k = 2; k > r; k--) v[k] = v[k - 1], at[k] = at[k - 1];
      v[r] = s, at[r] = j;
    }
    for (int k = 0; k < 3; k++) many[i][k] = v[k], best[i][k] = v[k] >= 0 ? key[i][at[k]] : -1;
  }
}
