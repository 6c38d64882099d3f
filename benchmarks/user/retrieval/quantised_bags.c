void kernel(const unsigned char (*restrict table)[D], const _Float16 *restrict scale, const _Float16 *restrict shift,
            const int (*restrict at)[L], const float (*restrict weight)[L], float (*restrict y)[D]) {
#pragma omp parallel for
  for (int i = 0; i < N; i++) {
    float total[D] = {0}, shifts = 0;
    for (int k = 0; k < L; k++) {
      int row = at[i][k];
      float a = weight[i][k] * (float)scale[row];
      shifts += weight[i][k] * (float)shift[row];
      for (int f = 0; f < D; f++) total[f] += a * table[row][f];
    }
    for (int f = 0; f < D; f++) y[i][f] = total[f] + shifts;
  }
}
