void kernel(const int (*restrict gap)[Q], const float (*restrict price)[Q], const int (*restrict when)[T],
            float (*restrict paid)[T], int (*restrict age)[T]) {
#pragma omp parallel for
  for (int i = 0; i < S; i++) {
    int time[Q];
    for (int j = 0, now = 0; j < Q; j++) time[j] = now += gap[i][j];
    for (int k = 0; k < T; k++) {
      int low = 0, many = Q;
      for (; many > 1; many -= many / 2) low += (time[low + many / 2 - 1] <= when[i][k]) * (many / 2);
      low += time[low] <= when[i][k];
      paid[i][k] = low ? price[i][low - 1] : 0;
      age[i][k] = low ? when[i][k] - time[low - 1] : -1;
    }
  }
}
