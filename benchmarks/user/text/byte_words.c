void kernel(const unsigned char (*restrict text)[L], const unsigned char *restrict kind, int *restrict words, int *restrict digits) {
#pragma omp parallel for
  for (int i = 0; i < N; i++) {
    int many = 0, digit = 0, before = 0;
    for (int j = 0; j < L; j++) {
      int k = kind[text[i][j]], letter = k == 1;
      many += letter & !before;
      digit += k == 2;
      before = letter;
    }
    words[i] = many;
    digits[i] = digit;
  }
}
