void kernel(const unsigned char (*restrict x)[L], int *restrict characters, int *restrict bad) {
#pragma omp parallel for
  for (int i = 0; i < B; i++) {
    int many = 0, j = 0;
    for (int k = 0; k < L; k++) many += (x[i][k] & 0xc0) != 0x80;
    for (int left = 0; j < L; j++) {
      int v = x[i][j], follows = (v & 0xc0) == 0x80;
      if (follows != left > 0 || v >= 0xf8) break;
      left = follows ? left - 1 : v >= 0xf0 ? 3 : v >= 0xe0 ? 2 : v >= 0xc0 ? 1 : 0;
    }
    characters[i] = many;
    bad[i] = j;
  }
}
