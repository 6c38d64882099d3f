#define N (8 * BYTES)
void kernel(const float (*restrict x)[N], const float (*restrict past)[N], const unsigned *restrict seed, float (*restrict y)[N],
            unsigned char (*restrict mask)[BYTES]) {
#pragma omp parallel for
  for (int i = 0; i < M; i++) {
    unsigned char kept[N];
    for (int j = 0; j < N; j++) {
      unsigned v = (unsigned)(i * N + j) * 0x9e3779b9u + *seed;
      v = (v ^ v >> 16) * 0x85ebca6bu;
      v = (v ^ v >> 13) * 0xc2b2ae35u;
      kept[j] = (v ^ v >> 16) >= 429496730u;
      y[i][j] = past[i][j] + (kept[j] ? x[i][j] * (1 / 0.9f) : 0);
    }
    for (int b = 0; b < BYTES; b++) {
      mask[i][b] = 0;
      for (int k = 0; k < 8; k++) mask[i][b] |= kept[8 * b + k] << k;
    }
  }
}
