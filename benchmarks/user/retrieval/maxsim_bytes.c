#include <limits.h>
void kernel(const signed char (*restrict word)[E], const signed char (*restrict text)[L][E], const int *restrict many,
            int *restrict y, int *restrict best) {
#pragma omp parallel for
  for (int i = 0; i < D; i++) {
    int score = 0;
    for (int j = 0; j < Q; j++) {
      int most = INT_MIN;
      for (int t = 0; t < many[i]; t++) {
        int dot = 0;
        for (int k = 0; k < E; k++) dot += word[j][k] * text[i][t][k];
        most = most > dot ? most : dot;
      }
      score += most;
    }
    y[i] = score;
  }
  *best = 0;
  for (int i = 1; i < D; i++)
    if (y[i] > y[*best]) *best = i;
}
