#include "elementary.h"

void kernel(const T *restrict ax, const T *restrict az, T *restrict y) {
  for (int i = 0; i < N; i++) {
    T x = ax[i], z = az[i];
    y[i] = VALUE;
  }
}
