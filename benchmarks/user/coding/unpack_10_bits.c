void kernel(const unsigned char (*restrict x)[5], unsigned short (*restrict y)[4]) {
#pragma omp parallel for
  for (int i = 0; i < N; i++)
    for (int k = 0; k < 4; k++) y[i][k] = x[i][k] << 2 | (x[i][4] >> 2 * k & 3);
}
