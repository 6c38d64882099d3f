void kernel(const unsigned char *restrict letter, const float (*restrict w)[4], float *restrict score, float *restrict sum) {
#pragma omp parallel for
  for (int i = 0; i < N; i++) {
    float there = 0, back = 0;
    for (int p = 0; p < K; p++) {
      there += w[p][letter[i + p]];
      back += w[K - 1 - p][3 - letter[i + p]];
    }
    score[i] = there > back ? there : back;
    sum[i] = there + back;
  }
}
