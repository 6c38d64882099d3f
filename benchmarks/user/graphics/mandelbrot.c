static float held(float v) { return v < -4 ? -4 : v > 4 ? 4 : v; }
void kernel(const float *restrict re, const float *restrict im, int (*restrict y)[W]) {
#pragma omp parallel for
  for (int i = 0; i < H; i++)
    for (int j = 0; j < W; j++) {
      float a = re[j], b = im[i];
      int count = 0;
      for (int k = 0; k < 24; k++) {
        float aa = a * a, bb = b * b;
        count += aa + bb <= 4;
        b = held(2 * a * b + im[i]);
        a = held(aa - bb + re[j]);
      }
      y[i][j] = count;
    }
}
