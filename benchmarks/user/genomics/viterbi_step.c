void kernel(const float (*restrict score)[P], const float (*restrict move)[S], const float (*restrict seen)[S],
            float (*restrict next)[S], int (*restrict back)[S]) {
#pragma omp parallel for
  for (int i = 0; i < B; i++) {
    float best[S];
    int from[S];
    for (int t = 0; t < S; t++) best[t] = score[i][0] + move[0][t], from[t] = 0;
    for (int r = 1; r < P; r++)
      for (int t = 0; t < S; t++) {
        float v = score[i][r] + move[r][t];
        from[t] = v > best[t] ? r : from[t];
        best[t] = v > best[t] ? v : best[t];
      }
    for (int t = 0; t < S; t++) next[i][t] = best[t] + seen[i][t], back[i][t] = from[t];
  }
}
