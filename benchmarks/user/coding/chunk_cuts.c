void kernel(const unsigned char *restrict x, unsigned *restrict code, _Bool *restrict cut, int *restrict count) {
  unsigned h = 0, out = 1, many = 0;
  for (int j = 0; j < K; j++) out *= 0x08104225u;
  for (int t = 0; t < N; t++) {
    h = h * 0x08104225u + x[t] + 1 - (t >= K ? (x[t - K] + 1) * out : 0);
    code[t] = h;
    cut[t] = t >= K - 1 && h >> 19 == 0;
    many += cut[t];
  }
  *count = many;
}
