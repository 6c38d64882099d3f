void kernel(const int (*restrict bit)[D], const short *restrict total, const signed char (*restrict old)[D], signed char (*restrict new)[D],
            unsigned char *restrict fails) {
#pragma omp parallel for
  for (int i = 0; i < M; i++) {
    int told[D], least = 127, second = 127, at = -1, odd = 0, hard = 0;
    for (int j = 0; j < D; j++) {
      int v = total[bit[i][j]];
      hard ^= v < 0;
      told[j] = v - old[i][j];
      odd ^= told[j] < 0;
      const int size = told[j] < 0 ? -told[j] : told[j];
      if (size < least) second = least, least = size, at = j;
      else if (size < second) second = size;
    }
    for (int j = 0; j < D; j++) new[i][j] = ((j == at ? second : least) * 3 >> 2) * (odd ^ (told[j] < 0) ? -1 : 1);
    fails[i] = hard;
  }
}
