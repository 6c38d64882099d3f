void kernel(const unsigned char *restrict x, int *restrict count) {
  for (int k = 0; k < V; k++) count[k] = 0;
  unsigned word = x[0] << 6 | x[1] << 4 | x[2] << 2 | x[3];
  for (int i = 0; i < N; i++) {
    word = (word << 2 | x[i + 4]) & (V - 1);
    count[word]++;
  }
}
