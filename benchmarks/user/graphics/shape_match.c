void kernel(const float (*restrict rest)[P][3], const float (*restrict move)[P][3], float (*restrict place)[P][3]) {
#pragma omp parallel for
  for (int i = 0; i < C; i++) {
    float x[P][3], from[3] = {0}, to[3] = {0}, r[3][3] = {{0}}, n[3][3];
    for (int j = 0; j < P; j++)
      for (int d = 0; d < 3; d++) {
        x[j][d] = rest[i][j][d] + move[i][j][d];
        from[d] += rest[i][j][d] * (1.f / P), to[d] += x[j][d] * (1.f / P);
      }
    for (int j = 0; j < P; j++)
      for (int u = 0; u < 3; u++)
        for (int v = 0; v < 3; v++) r[u][v] += (x[j][u] - to[u]) * (rest[i][j][v] - from[v]);
    float size = 3 / (r[0][0] + r[1][1] + r[2][2]);
    for (int u = 0; u < 3; u++)
      for (int v = 0; v < 3; v++) r[u][v] *= size;
    for (int step = 0; step < 5; step++) {
      for (int u = 0; u < 3; u++)
        for (int v = 0; v < 3; v++) {
          int g = (u + 1) % 3, h = (u + 2) % 3, s = (v + 1) % 3, t = (v + 2) % 3;
          n[u][v] = r[g][s] * r[h][t] - r[g][t] * r[h][s];
        }
      float over = 1 / (r[0][0] * n[0][0] + r[0][1] * n[0][1] + r[0][2] * n[0][2]);
      for (int u = 0; u < 3; u++)
        for (int v = 0; v < 3; v++) r[u][v] = (r[u][v] + n[u][v] * over) * 0.5f;
    }
    for (int j = 0; j < P; j++)
      for (int u = 0; u < 3; u++) {
        float goal = to[u];
        for (int v = 0; v < 3; v++) goal += r[u][v] * (rest[i][j][v] - from[v]);
        place[i][j][u] = x[j][u] + (goal - x[j][u]) * 0.5f;
      }
  }
}
