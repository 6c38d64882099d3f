void kernel(const float (*restrict org)[3], const float (*restrict inv)[3], const float *restrict most, const int *restrict node,
            const float (*restrict lo)[3][4], const float (*restrict hi)[3][4], unsigned char *restrict bits, signed char *restrict nearest) {
#pragma omp parallel for
  for (int i = 0; i < R; i++) {
    float enter[4] = {0}, leave[4] = {most[i], most[i], most[i], most[i]}, least = 1e30f;
    for (int d = 0; d < 3; d++)
      for (int c = 0; c < 4; c++) {
        float a = (lo[node[i]][d][c] - org[i][d]) * inv[i][d], b = (hi[node[i]][d][c] - org[i][d]) * inv[i][d];
        float s = a < b ? a : b, l = a < b ? b : a;
        enter[c] = s > enter[c] ? s : enter[c];
        leave[c] = l < leave[c] ? l : leave[c];
      }
    bits[i] = 0;
    nearest[i] = -1;
    for (int c = 0; c < 4; c++)
      if (enter[c] <= leave[c]) {
        bits[i] |= 1 << c;
        if (enter[c] < least) least = enter[c], nearest[i] = c;
      }
  }
}
