__attribute__((noinline)) static void some(const float (*restrict x)[8], unsigned char *restrict y, int many) {
  for (int i = 0; i < many; i++) {
    int byte = 0;
    for (int b = 0; b < 8; b++) byte |= (x[i][b] > 0.5f) << b;
    y[i] = byte;
  }
}
void kernel(const float (*restrict x)[8], unsigned char *restrict y) {
#pragma omp parallel for
  for (int i = 0; i < N; i += 256) some(x + i, y + i, N - i < 256 ? N - i : 256);
}
