void kernel(const float (*restrict x)[T], const float (*restrict y)[T], float (*restrict cov)[T]) {
#pragma omp parallel for
  for (int i = 0; i < B; i++) {
    float mx = 0, my = 0, mxy = 0;
    for (int j = 0; j < T; j++) {
      mx = 0.94f * mx + 0.06f * x[i][j];
      my = 0.94f * my + 0.06f * y[i][j];
      mxy = 0.94f * mxy + 0.06f * x[i][j] * y[i][j];
      cov[i][j] = mxy - mx * my;
    }
  }
}
