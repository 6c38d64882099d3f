void kernel(const short *restrict x, const short *restrict w, short *restrict y) {
#pragma omp parallel for
  for (int i = 0; i < N; i++) {
    int total = 0;
    for (int l = 0; l < K; l++) total += x[i + l] * w[l];
    total >>= 15;
    y[i] = total < -32768 ? -32768 : total > 32767 ? 32767 : total;
  }
}
