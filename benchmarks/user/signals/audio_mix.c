void kernel(const short (*restrict x)[N], const short *restrict volume, short *restrict y) {
#pragma omp parallel for
  for (int i = 0; i < N; i++) {
    int total = 0;
    for (int l = 0; l < T; l++) total += (x[l][i] * volume[l]) >> 14;
    y[i] = total < -32768 ? -32768 : total > 32767 ? 32767 : total;
  }
}
