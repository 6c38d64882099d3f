static void row(const float (*restrict z)[2], const float (*restrict w)[2], float (*restrict y)[2]) {
  y[0][0] = z[0][0] + w[0][0] * z[0][1];
  y[0][1] = w[0][1] * z[0][1];
  for (int k = 1; k < N; k++) {
    float a = z[k][0], c = z[k][1], p = z[N - k][0], q = -z[N - k][1];
    float er = 0.5f * (a + p), ei = 0.5f * (c + q), dr = 0.5f * (c - q), di = -0.5f * (a - p);
    y[k][0] = er + w[k][0] * dr - w[k][1] * di;
    y[k][1] = ei + w[k][0] * di + w[k][1] * dr;
  }
}
void kernel(const float (*restrict z)[N][2], const float (*restrict w)[2], float (*restrict y)[N][2]) {
#pragma omp parallel for
  for (int i = 0; i < B; i++) row(z[i], w, y[i]);
}
