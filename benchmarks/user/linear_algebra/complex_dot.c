void kernel(const float (*restrict a)[N][2], const float (*restrict b)[N][2], float *restrict re, float *restrict im) {
#pragma omp parallel for
  for (int i = 0; i < M; i++) {
    float real = 0, imaginary = 0;
    for (int k = 0; k < N; k++) {
      real += a[i][k][0] * b[i][k][0] + a[i][k][1] * b[i][k][1];
      imaginary += a[i][k][0] * b[i][k][1] - a[i][k][1] * b[i][k][0];
    }
    re[i] = real;
    im[i] = imaginary;
  }
}
