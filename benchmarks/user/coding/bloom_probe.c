static const unsigned by[4] = {2654435761u, 2246822519u, 3266489917u, 668265263u};
void kernel(const unsigned *restrict key, const unsigned *restrict bits, unsigned char *restrict y, int *restrict count) {
  int many = 0;
#pragma omp parallel for simd reduction(+ : many)
  for (int i = 0; i < N; i++) {
    unsigned found = 1;
    for (int k = 0; k < 4; k++) {
      unsigned h = key[i] * by[k] >> 15;
      found &= bits[h >> 5] >> (h & 31);
    }
    y[i] = found;
    many += found;
  }
  count[0] = many;
}
