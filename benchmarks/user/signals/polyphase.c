void kernel(const short *restrict x, const short (*restrict w)[K], short (*restrict y)[2]) {
#pragma omp parallel for
  for (int i = 0; i < N; i++)
    for (int p = 0; p < 2; p++) {
      int total = 0;
      for (int l = 0; l < K; l++) total += x[i + l] * w[p][l];
      total >>= 15;
      y[i][p] = total < -32768 ? -32768 : total > 32767 ? 32767 : total;
    }
}
