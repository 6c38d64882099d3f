static void block(const unsigned *restrict x, unsigned *restrict words, unsigned *restrict base, unsigned char *restrict width) {
  unsigned least = x[0], most = x[0];
  for (int k = 1; k < 128; k++) {
    least = x[k] < least ? x[k] : least;
    most = x[k] > most ? x[k] : most;
  }
  int bits = most > least ? 32 - __builtin_clz(most - least) : 0;
  for (int k = 0; k < 129; k++) words[k] = 0;
  for (int k = 0; k < 128; k++) {
    unsigned v = x[k] - least, at = k * bits, off = at & 31;
    words[at >> 5] |= v << off;
    if (off + bits > 32) words[(at >> 5) + 1] |= v >> (32 - off);
  }
  *base = least;
  *width = bits;
}
void kernel(const unsigned (*restrict x)[128], unsigned (*restrict words)[129], unsigned *restrict base,
            unsigned char *restrict width) {
#pragma omp parallel for
  for (int i = 0; i < B; i++) block(x[i], words[i], base + i, width + i);
}
