void kernel(const unsigned long *restrict key, const unsigned char (*restrict tags)[16], unsigned short *restrict y) {
#pragma omp parallel for
  for (int i = 0; i < N; i++) {
    unsigned long h = key[i] * 0x9E3779B97F4A7C15u;
    const unsigned char *group = tags[h >> 53], tag = h >> 46 & 127;
    int mask = 0;
    for (int k = 0; k < 16; k++) mask |= (group[k] == tag) << k;
    y[i] = mask;
  }
}
