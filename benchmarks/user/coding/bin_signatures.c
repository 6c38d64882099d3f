#include <string.h>
void kernel(const unsigned (*restrict word)[L], const int *restrict many, unsigned (*restrict y)[K], unsigned long *restrict seen) {
#pragma omp parallel for
  for (int i = 0; i < D; i++) {
    unsigned long set = 0;
    memset(y[i], 255, sizeof y[i]);
    for (int j = 0; j < many[i]; j++) {
      unsigned h = word[i][j];
      h = (h ^ h >> 16) * 0x85EBCA6Bu;
      h = (h ^ h >> 13) * 0xC2B2AE35u;
      unsigned long wide = (unsigned long)(h ^ h >> 16) * K;
      unsigned at = wide >> 32, rest = wide;
      y[i][at] = rest < y[i][at] ? rest : y[i][at];
      set |= 1ul << at;
    }
    seen[i] = set;
  }
}
