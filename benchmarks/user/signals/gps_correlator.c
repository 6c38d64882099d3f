typedef unsigned u32;
void kernel(const signed char (*restrict x)[2], const signed char (*restrict code)[1024], const signed char (*restrict wave)[2],
            const u32 *restrict chip, const u32 *restrict rate, const u32 *restrict turn, const u32 *restrict speed, int (*restrict y)[3][2]) {
#pragma omp parallel for
  for (int i = 0; i < K; i++) {
    u32 c = chip[i], t = turn[i];
    int sum[3][2] = {0};
    for (int j = 0; j < N; j++, c += rate[i], t += speed[i]) {
      int co = wave[t >> 24][0], si = wave[t >> 24][1], re = x[j][0] * co + x[j][1] * si, im = x[j][1] * co - x[j][0] * si;
      for (int e = 0; e < 3; e++) {
        int v = code[i][(c + ((u32)e << 21)) >> 22];
        sum[e][0] += v * re;
        sum[e][1] += v * im;
      }
    }
    for (int e = 0; e < 3; e++) y[i][e][0] = sum[e][0], y[i][e][1] = sum[e][1];
  }
}
