static void row(const short *restrict x, short *restrict y, signed char *restrict was) {
  short place[N];
  for (int j = 0; j < N; j++) place[j] = 0;
  for (int k = 0; k < N; k++) {
    short v = x[k];
    for (int j = 0; j <= k; j++) place[j] += v < x[j];
    for (int j = k + 1; j < N; j++) place[j] += v <= x[j];
  }
  for (int j = 0; j < N; j++) {
    y[place[j]] = x[j];
    was[place[j]] = j;
  }
}
void kernel(const short (*restrict x)[N], short (*restrict y)[N], signed char (*restrict was)[N]) {
#pragma omp parallel for
  for (int i = 0; i < B; i++) row(x[i], y[i], was[i]);
}
