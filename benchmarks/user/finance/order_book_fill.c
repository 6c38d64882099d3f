void kernel(const double (*restrict price)[L], const int (*restrict size)[L], const int *restrict want, double *restrict mean,
            int *restrict got) {
#pragma omp parallel for
  for (int i = 0; i < N; i++) {
    int left = want[i];
    double cost = 0;
    for (int j = 0; j < L; j++) {
      int taken = left < size[i][j] ? left : size[i][j];
      cost += taken * price[i][j];
      left -= taken;
    }
    got[i] = want[i] - left;
    mean[i] = cost / got[i];
  }
}
