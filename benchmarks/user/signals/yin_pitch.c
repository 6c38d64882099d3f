void kernel(const short *restrict x, int *restrict lag, float (*restrict dip)[L]) {
#pragma omp parallel for
  for (int i = 0; i < F; i++) {
    const short *at = x + i * HOP;
    long upto = 0;
    int first = L, least = 0;
    double lowest = 1e300;
    for (int k = 0; k < L; k++) {
      long d = 0;
      for (int j = 0; j < W; j++) {
        int move = at[j] - at[j + k + 1];
        d += move * move;
      }
      upto += d;
      double norm = (double)d * (k + 1) / (upto > 1 ? upto : 1);
      dip[i][k] = norm;
      if (norm < 0.97 && first == L) first = k;
      if (norm < lowest) lowest = norm, least = k;
    }
    lag[i] = (first < L ? first : least) + 1;
  }
}
