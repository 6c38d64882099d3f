static void book(const double (*restrict paid)[N], double *restrict factors, double *restrict reserves, double *restrict all) {
  double cum[N][N], rest = 1;
  for (int i = 0; i < N; i++) {
    cum[i][0] = paid[i][0];
    for (int j = 1; j < N - i; j++) cum[i][j] = cum[i][j - 1] + paid[i][j];
  }
  for (int j = 0; j < N - 1; j++) {
    double after = 0, before = 0;
    for (int i = 0; i < N - 1 - j; i++) {
      after += cum[i][j + 1];
      before += cum[i][j];
    }
    factors[j] = after / before;
  }
  *all = reserves[0] = 0;
  for (int i = 1; i < N; i++) {
    rest *= factors[N - 1 - i];
    reserves[i] = cum[i][N - 1 - i] * (rest - 1);
    *all += reserves[i];
  }
}
void kernel(const double (*restrict paid)[N][N], double (*restrict factors)[N - 1], double (*restrict reserves)[N],
            double *restrict all) {
#pragma omp parallel for
  for (int k = 0; k < B; k++) book(paid[k], factors[k], reserves[k], all + k);
}
