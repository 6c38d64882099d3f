static const int w[11] = {-36, 9, 44, 69, 84, 89, 84, 69, 44, 9, -36};
static void edge(const short (*restrict x)[C], float (*restrict y)[C], int i) {
  for (int k = 0; k < C; k++) {
    int t = 0;
    for (int o = 0; o < 11; o++) {
      int at = i + o - 5;
      at = at < 0 ? 0 : at > N - 1 ? N - 1 : at;
      t += x[at][k] * w[o];
    }
    y[i][k] = t * (1 / 429.f);
  }
}
void kernel(const short (*restrict x)[C], float (*restrict y)[C]) {
  for (int i = 0; i < 5; i++) edge(x, y, i);
  const short *a = x[0];
  float *b = y[0];
#pragma omp parallel for
  for (int m = 5 * C; m < (N - 5) * C; m++) {
    int t = 0;
    for (int o = 0; o < 11; o++) t += a[m + (o - 5) * C] * w[o];
    b[m] = t * (1 / 429.f);
  }
  for (int i = N - 5; i < N; i++) edge(x, y, i);
}
