void kernel(const int *restrict label, const int (*restrict near)[N], int *restrict y, int *restrict changed) {
  int many = 0;
#pragma omp parallel for reduction(+ : many)
  for (int i = 0; i < N; i++) {
    int least = label[i];
    for (int j = 0; j < L; j++) {
      int other = near[j][i], theirs = other < 0 ? N : label[other];
      least = theirs < least ? theirs : least;
    }
    y[i] = least;
    many += least < label[i];
  }
  changed[0] = many;
}
