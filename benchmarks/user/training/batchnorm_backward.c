void kernel(const float (*restrict x)[C][P], const float (*restrict dy)[C][P], const unsigned char (*restrict mask)[C][P],
            const float *restrict mean, const float *restrict rstd, const float *restrict gamma, float (*restrict dx)[C][P],
            float *restrict dgamma, float *restrict dbeta) {
#pragma omp parallel for
  for (int j = 0; j < C; j++) {
    float scale = 0, bias = 0, mu = mean[j], r = rstd[j], g = gamma[j];
    for (int i = 0; i < N; i++)
      for (int k = 0; k < P; k++) {
        float d = mask[i][j][k] ? dy[i][j][k] : 0;
        bias += d;
        scale += d * (x[i][j][k] - mu) * r;
      }
    for (int i = 0; i < N; i++)
#pragma omp simd
      for (int k = 0; k < P; k++) {
        float d = mask[i][j][k] ? dy[i][j][k] : 0;
        dx[i][j][k] = g * r * (d - (bias + (x[i][j][k] - mu) * r * scale) / (N * P));
      }
    dgamma[j] = scale;
    dbeta[j] = bias;
  }
}
