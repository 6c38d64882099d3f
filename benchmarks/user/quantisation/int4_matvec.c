void kernel(const unsigned char (*restrict w)[K / 2], const float *restrict x, const float (*restrict scale)[K / G],
            const unsigned char (*restrict zero)[K / G], float *restrict y) {
#pragma omp parallel for
  for (int i = 0; i < N; i++) {
    float total = 0;
    for (int group = 0; group < K / G; group++) {
      float part = 0, middle = zero[i][group];
      for (int l = group * (G / 2); l < (group + 1) * (G / 2); l++)
        part += ((w[i][l] & 15) - middle) * x[2 * l] + ((w[i][l] >> 4) - middle) * x[2 * l + 1];
      total += scale[i][group] * part;
    }
    y[i] = total;
  }
}
