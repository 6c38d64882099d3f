#include "elementary.h"

void kernel(const T *restrict ax, T *restrict y) {
  for (int i = 0; i < N; i++) {
    T x = ax[i];
    y[i] = VALUE;
  }
}
