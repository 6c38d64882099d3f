void kernel(const unsigned char (*restrict text)[L], const unsigned char *restrict length, const unsigned char *restrict pattern,
            short *restrict place, int *restrict rows) {
  int found = 0;
#pragma omp parallel for reduction(+ : found)
  for (int i = 0; i < N; i++) {
    place[i] = -1;
    for (int s = 0; s + P <= length[i]; s++) {
      int c = 0;
      while (c < P && (text[i][s + c] | 32) == pattern[c]) c++;
      if (c < P) continue;
      place[i] = s, found++;
      break;
    }
  }
  *rows = found;
}
