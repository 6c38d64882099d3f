void kernel(const unsigned char (*restrict read)[L], const unsigned char (*restrict good)[L], const int *restrict start,
            int (*restrict y)[4]) {
  for (int k = 0; k < G * 4; k++) ((int *)y)[k] = 0;
  for (int i = 0; i < N; i++)
    for (int j = 0; j < L; j++) y[start[i] + j][read[i][j]] += good[i][j] >= 20;
}
