void kernel(const unsigned *restrict key, float *restrict y) {
#pragma omp parallel for
  for (int i = 0; i < N; i++) {
    unsigned bits = i * 2654435769u + key[0];
    bits = (bits ^ bits >> 16) * 2246822507u;
    bits = (bits ^ bits >> 13) * 3266489909u;
    bits = (bits ^ bits >> 16) * 668265263u;
    y[i] = (bits >> 8) * 0x1p-24f;
  }
}
