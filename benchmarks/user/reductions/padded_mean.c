void kernel(const float (*restrict x)[T][D], const int *restrict length, float (*restrict y)[D]) {
#pragma omp parallel for
  for (int i = 0; i < B; i++) {
    float total[D] = {0};
    for (int k = 0; k < length[i]; k++)
      for (int f = 0; f < D; f++) total[f] += x[i][k][f];
    for (int f = 0; f < D; f++) y[i][f] = total[f] / length[i];
  }
}
