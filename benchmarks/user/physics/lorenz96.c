void kernel(const float (*restrict x)[K], float (*restrict y)[K]) {
#pragma omp parallel for
  for (int i = 0; i < N; i++) {
    float ring[K + 3], mid[K + 3];
    ring[0] = x[i][K - 2], ring[1] = x[i][K - 1], ring[K + 2] = x[i][0];
    for (int j = 0; j < K; j++) ring[j + 2] = x[i][j];
    for (int j = 0; j < K; j++)
      mid[j + 2] = ring[j + 2] + 0.005f * ((ring[j + 3] - ring[j]) * ring[j + 1] - ring[j + 2] + 8.0f);
    mid[0] = mid[K], mid[1] = mid[K + 1], mid[K + 2] = mid[2];
    for (int j = 0; j < K; j++)
      y[i][j] = ring[j + 2] + 0.01f * ((mid[j + 3] - mid[j]) * mid[j + 1] - mid[j + 2] + 8.0f);
  }
}
