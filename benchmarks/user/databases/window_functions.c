void kernel(const int *restrict key, const double *restrict x, int *restrict number, double *restrict average, double *restrict change) {
  for (int i = 0; i < N; i++) number[i] = i > 0 && key[i] == key[i - 1] ? number[i - 1] + 1 : 1;
#pragma omp parallel for
  for (int i = 0; i < N; i++) {
    int many = number[i] < 7 ? number[i] : 7;
    double total = 0;
    for (int k = 0; k < many; k++) total += x[i - k];
    average[i] = total / many;
    change[i] = number[i] > 1 ? x[i] - x[i - 1] : 0;
  }
}
