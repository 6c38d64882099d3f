void kernel(const unsigned char *restrict text, const int *restrict order, unsigned char *restrict lcp) {
#pragma omp parallel for
  for (int i = 0; i < N - 1; i++) {
    int k = 0, a = order[i], b = order[i + 1];
    while (k < L && text[a + k] == text[b + k]) k++;
    lcp[i] = k;
  }
}
