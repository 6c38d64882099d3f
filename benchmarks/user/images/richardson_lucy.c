static float ratio[H][W];
static void blurred(const float (*restrict x)[W], const float (*restrict psf)[K], int i, int s, float *restrict sum) {
  for (int j = 0; j < W; j++) sum[j] = 0;
  for (int a = -(K / 2); a <= K / 2; a++) {
    if (i + s * a < 0 || i + s * a >= H) continue;
    for (int b = -(K / 2); b <= K / 2; b++) {
      float f = psf[a + K / 2][b + K / 2];
      int o = s * b, first = o < 0 ? -o : 0, end = o < 0 ? W : W - o;
      for (int j = first; j < end; j++) sum[j] += f * x[i + s * a][j + o];
    }
  }
}
void kernel(const float (*restrict seen)[W], const float (*restrict guess)[W], const float (*restrict psf)[K], float (*restrict y)[W]) {
#pragma omp parallel for
  for (int i = 0; i < H; i++) {
    float sum[W];
    blurred(guess, psf, i, 1, sum);
    for (int j = 0; j < W; j++) ratio[i][j] = seen[i][j] / (sum[j] + 1e-6f);
  }
#pragma omp parallel for
  for (int i = 0; i < H; i++) {
    float sum[W];
    blurred(ratio, psf, i, -1, sum);
    for (int j = 0; j < W; j++) y[i][j] = guess[i][j] * sum[j];
  }
}
