void kernel(const float (*restrict x)[N][2], const float *restrict window, const float (*restrict turn)[2],
            float (*restrict y)[N][2]) {
#pragma omp parallel for
  for (int i = 0; i < M; i++)
    for (int j = 0; j < N; j++) {
      y[i][j][0] = window[j] * (x[i][j][0] * turn[j][0] - x[i][j][1] * turn[j][1]);
      y[i][j][1] = window[j] * (x[i][j][0] * turn[j][1] + x[i][j][1] * turn[j][0]);
    }
}
