void kernel(const float (*restrict x)[T], const float (*restrict z)[T], const int *restrict length, float *restrict y) {
#pragma omp parallel for
  for (int i = 0; i < B; i++) {
    float total = 0;
    for (int k = 0; k < length[i]; k++) total += (x[i][k] - z[i][k]) * (x[i][k] - z[i][k]);
    y[i] = total;
  }
}
