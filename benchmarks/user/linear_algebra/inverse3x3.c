void kernel(const float (*restrict x)[3][3], float (*restrict y)[3][3]) {
#pragma omp parallel for
  for (int i = 0; i < N; i++) {
    float a = x[i][0][0] + 2, b = x[i][0][1], c = x[i][0][2], d = x[i][1][0], e = x[i][1][1] + 2, f = x[i][1][2];
    float g = x[i][2][0], h = x[i][2][1], k = x[i][2][2] + 2;
    float p = e * k - f * h, q = f * g - d * k, r = d * h - e * g, over = 1 / (a * p + b * q + c * r);
    y[i][0][0] = p * over, y[i][0][1] = (c * h - b * k) * over, y[i][0][2] = (b * f - c * e) * over;
    y[i][1][0] = q * over, y[i][1][1] = (a * k - c * g) * over, y[i][1][2] = (c * d - a * f) * over;
    y[i][2][0] = r * over, y[i][2][1] = (b * g - a * h) * over, y[i][2][2] = (a * e - b * d) * over;
  }
}
