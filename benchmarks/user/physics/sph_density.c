void kernel(const float (*restrict p)[3], const float *restrict mass, const int (*restrict near)[L], float *restrict density,
            int *restrict many) {
#pragma omp parallel for
  for (int i = 0; i < N; i++) {
    float a = p[i][0], b = p[i][1], c = p[i][2], total = 0;
    int count = 0;
    for (int k = 0; k < L; k++) {
      int at = near[i][k] < 0 ? 0 : near[i][k];
      float x = a - p[at][0], y = b - p[at][1], z = c - p[at][2], left = 0.5f - (x * x + y * y + z * z);
      int close = (near[i][k] >= 0) & (left > 0);
      left = close ? left : 0;
      total += mass[at] * left * left * left;
      count += close;
    }
    density[i] = total;
    many[i] = count;
  }
}
