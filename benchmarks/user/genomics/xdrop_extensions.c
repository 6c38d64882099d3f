void kernel(const unsigned char *restrict query, const unsigned char *restrict data, const signed char (*restrict score)[20],
            const int *restrict left, const int *restrict right, int *restrict gain, short *restrict length) {
#pragma omp parallel for
  for (int i = 0; i < N; i++) {
    const unsigned char *p = query + left[i], *q = data + right[i];
    int total = 0, best = 0, longest = 0;
    for (int t = 0; t < L; t++) {
      total += score[p[t]][q[t]];
      if (total > best) best = total, longest = t + 1;
      else if (best - total > 20) break;
    }
    gain[i] = best, length[i] = longest;
  }
}
