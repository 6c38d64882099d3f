void kernel(const float (*restrict apart)[H][W], const float (*restrict q)[H][W], const float *restrict mass, float (*restrict level)[W],
            float (*restrict water)[W]) {
#pragma omp parallel for
  for (int i = 0; i < H; i++) {
    for (int j = 0; j < W; j++) water[i][j] = 0, level[i][j] = -1;
    for (int k = L - 1; k >= 0; k--)
#pragma omp simd
      for (int j = 0; j < W; j++) {
        float t = apart[k][i][j] + (12 - 1.95f * k), below = k ? apart[k - 1][i][j] + (12 - 1.95f * (k - 1)) : 0;
        water[i][j] += q[k][i][j] * mass[k];
        level[i][j] = t >= 0 ? level[i][j] : k == 0 ? 0 : (k - 1 + below / (below - t)) * 300;
      }
  }
}
